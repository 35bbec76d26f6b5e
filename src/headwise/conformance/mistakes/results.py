"""Mistakes in what is taken and returned: shapes, precision, inputs changed in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.plain import Mistake


def _in_place(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    """Scale the query where it lies."""
    arrays = plain.operands(query, key, value)
    if not isinstance(query, np.ndarray) or query.dtype.kind not in "fV":
        raise TypeError("cannot be scaled in place")
    query *= query.dtype.type(max(query.shape[-1], 1) ** -0.5)
    return arrays


def _only_rank_4(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    if not np.ndim(query) == np.ndim(key) == np.ndim(value) == 4:
        raise ValueError("not four dimensions")
    return plain.operands(query, key, value)


def _batch_by_batch(weights: Array, value: Array, visible: Array) -> Array:
    output = plain.weigh(weights, value, visible)
    return np.asarray(output.mean(axis=-3)) if output.ndim > 2 else output


def _low(dtype: Any) -> Any:
    del dtype
    return np.float32


def _own(dtype: Any) -> Any:
    """Compute in the inputs' precision, 16 bits included."""
    return dtype.newbyteorder("=").type


def _flat(output: Array, query: Array) -> Array:
    output = plain.finish(output, query)
    return plain.combine(output) if output.ndim > 2 else output


MISTAKES = (
    Mistake(
        "heads averaged in the attention",
        "The result is averaged over the heads.",
        "Leave the leading dimensions alone: weights @ value.",
        {"weigh": _batch_by_batch},
    ),
    Mistake(
        "result combined",
        "The result's heads are put side by side.",
        "Return weights @ value as it is; combining heads is another function.",
        {"finish": _flat},
    ),
    Mistake(
        "result not transposed back",
        "The result's last two axes are exchanged.",
        "The result is (..., query_len, value_dim): weights @ value.",
        {"finish": lambda output, query: plain.finish(output, query).swapaxes(-1, -2)},
    ),
    Mistake(
        "changes its inputs",
        "The query is scaled in place: the caller's array is another one afterwards.",
        "Write scores = scores / root, not query /= root.",
        {"operands": _in_place, "factor": lambda *_: 1.0},
    ),
    Mistake(
        "takes four dimensions only",
        "Arrays with another number of dimensions than four raise.",
        "Count axes from the end: swapaxes(-1, -2), axis=-1, and '...' in einsum.",
        {"operands": _only_rank_4},
    ),
    Mistake(
        "lower precision",
        "float64 inputs are computed in float32.",
        "Compute in the inputs' own precision.",
        {"working": _low},
        slack=1e5,
    ),
    Mistake(
        "result in float64",
        "The result is float64 whatever came; in NumPy 2 an np.sqrt(d_k) does that.",
        "Use math.sqrt(d_k), or output.astype(query.dtype).",
        {"finish": lambda output, _: output.astype(np.float64)},
    ),
    Mistake(
        "result in float32",
        "The result is float32 whatever came.",
        "Return output.astype(query.dtype).",
        {"finish": lambda output, _: output.astype(np.float32)},
    ),
    Mistake(
        "scores kept in 16 bits",
        "The scores of 16-bit inputs are rounded to 16 bits: products beyond 65504 overflow.",
        "Multiply in float32 and round the result only.",
        {"rounded": lambda scores, dtype: scores.astype(dtype)},
    ),
    Mistake(
        "computed in 16 bits",
        "16-bit inputs are computed in 16 bits: products overflow and sums lose their digits.",
        "Compute in float32 and round at the end.",
        {"working": _own},
    ),
    Mistake(
        "result is a list",
        "A nested list is returned.",
        "Return an array: np.array(output).",
        {"finish": lambda output, query: plain.finish(output, query).tolist()},
    ),
    Mistake(
        "output and weights returned",
        "A pair is returned: the output with the weights.",
        "Return the output alone, or check a function that returns its first part.",
        {"finish": lambda output, query: (plain.finish(output, query), output)},
    ),
    Mistake(
        "nothing returned",
        "None is returned: there is no return statement.",
        "End with return output.",
        {"finish": lambda *_: None},
    ),
)
