"""The arrays of a case, made from its seed, so that every process makes the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from benchmarks.cases import Case

Array: TypeAlias = Any


@dataclass(frozen=True)
class Inputs:
    """The operands. ``(batch, heads, length, dim)``; numbers of a bfloat16 case come as float32.

    ``mask`` holds what `Case.causal` does not say: True where a key may be attended to,
    broadcastable to ``(batch, heads, query_len, kv_len)``; None where there is nothing to say.
    """

    case: Case
    query: Array
    key: Array
    value: Array
    mask: Array | None

    @property
    def visible(self) -> Array:
        """Everything about who may attend, as one boolean array; None where all may."""
        if not self.case.causal or self.case.window:
            return self.mask
        return np.tri(self.case.query_len, self.case.kv_len, dtype=bool)


def make_inputs(case: Case) -> Inputs:
    """Draw the operands of a case: normally distributed, of unit variance."""
    rng = np.random.default_rng(case.seed)
    query = _draw(rng, case, (case.batch, case.heads, case.query_len, case.dim))
    key = _draw(rng, case, (case.batch, case.groups, case.kv_len, case.dim))
    value = _draw(rng, case, (case.batch, case.groups, case.kv_len, case.dim))
    return Inputs(case, query, key, value, _make_mask(case))


def _draw(rng: np.random.Generator, case: Case, shape: tuple[int, ...]) -> Array:
    if case.dtype == "float64":
        return rng.standard_normal(shape)
    array = rng.standard_normal(shape, dtype=np.float32)
    if case.dtype == "bfloat16":  # drop the bits that bfloat16 does not keep
        array.view(np.uint32)[...] &= 0xFFFF0000
    return array


def _make_mask(case: Case) -> Array | None:
    if case.lengths:
        return np.arange(case.kv_len) < np.array(case.lengths)[:, None, None, None]
    if case.window:
        distance = np.arange(case.query_len)[:, None] - np.arange(case.kv_len)
        return (distance >= 0) & (distance < case.window)
    return None
