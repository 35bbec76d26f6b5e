"""What is right: the float64 reference, on some of a case's rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.cases import Case
from benchmarks.inputs import Array, Inputs, make_inputs
from headwise import reference

MOST_ROWS = 48


@dataclass(frozen=True)
class Oracle:
    """The right output rows of a case, for every batch item and head."""

    rows: list[int]
    output: Array

    def error(self, output: Array) -> float:
        """Return the largest error, as a share of the largest right number; NaN where one is."""
        return float(abs(output - self.output).max() / abs(self.output).max())


def ask_oracle(case: Case) -> Oracle:
    """Compute the rows that peers are compared on: all of a short case, else both ends and some."""
    inputs = make_inputs(case)
    rows = pick_rows(case)
    heads = [_one_item(inputs, item, rows) for item in range(case.batch)]
    return Oracle(rows, np.concatenate(heads))


def pick_rows(case: Case) -> list[int]:
    """Choose query positions, the first and the last among them."""
    if case.query_len <= MOST_ROWS:
        return list(range(case.query_len))
    rng = np.random.default_rng(case.seed)
    between = rng.choice(case.query_len - 2, MOST_ROWS - 2, replace=False) + 1
    return [0, *sorted(between.tolist()), case.query_len - 1]


def _one_item(inputs: Inputs, item: int, rows: list[int]) -> Array:
    one = slice(item, item + 1)
    visible = inputs.visible
    if visible is not None:
        visible = np.broadcast_to(
            visible, (inputs.case.batch, 1, inputs.case.query_len, inputs.case.kv_len)
        )[one, :, rows]
    seen = reference.attention(
        inputs.query[one, :, rows], inputs.key[one], inputs.value[one], visible
    )
    return seen.output
