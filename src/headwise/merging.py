"""Partial results over disjoint keys become the result over all of them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from headwise._arrays import (
    Array,
    dtype_name,
    is_float,
    like,
    rounded,
    same_dtype,
    to_numpy,
    widen,
)
from headwise._errors import shape_text

ArrayT = TypeVar("ArrayT")


def merge(output_a: ArrayT, lse_a: Any, output_b: Any, lse_b: Any) -> tuple[ArrayT, ArrayT]:
    """Merge two results of the same queries over disjoint sets of keys.

    ``lse = log(e^lse_a + e^lse_b)`` and ``output = e^(lse_a - lse) · output_a + e^(lse_b - lse) ·
    output_b``: what one call over both sets of keys would have given, up to rounding.

    Parameters
    ----------
    output_a, output_b
        ``(..., query_len, value_dim)``, of one shape: outputs of `headwise.observe`.
    lse_a, lse_b
        ``(..., query_len)``: their log-sum-exps; -inf where a query saw none of those keys.

    Returns
    -------
    output, lse
        Of the arrays' type, shapes and dtypes. They can be merged again.

    Raises
    ------
    TypeError, ValueError
        Where shapes or dtypes do not fit.

    Notes
    -----
    Give ``sink_logits`` to one of the calls only, and to one in which every query sees a key; or to
    none, and merge the sink itself: a partial result whose output is 0 and whose lse is the sink's
    score. A lse in float32 is exact to ``6e-8 · |lse|``, and so are the merged weights.

    Milakov & Gimelshein 2018, "Online normalizer calculation for softmax", section 3.1.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.normal(size=(1, 2, 6, 8)) for _ in range(3))
    >>> halves = (slice(0, 4), slice(4, 6))
    >>> a, b = (headwise.observe(q, k[..., h, :], v[..., h, :], query_offset=0) for h in halves)
    >>> output, lse = headwise.merge(a.output, a.lse, b.output, b.lse)
    >>> np.allclose(output, headwise.scaled_dot_product_attention(q, k, v))
    True
    """
    a, b = _floats("output_a", output_a), _floats("output_b", output_b)
    log_a, log_b = _floats("lse_a", lse_a), _floats("lse_b", lse_b)
    _check(a, log_a, b, log_b)
    with np.errstate(invalid="ignore", over="ignore"):
        lse = np.logaddexp(log_a, log_b)
        merged = _share(a, log_a, lse) + _share(b, log_b, lse)
    return like(output_a, rounded(merged, a.dtype)), like(lse_a, lse)


def _floats(name: str, x: Any) -> Array:
    array = to_numpy(name, x)
    if not is_float(array):
        raise TypeError(f"{name} must be an array of floats, got dtype {array.dtype}")
    return array


def _check(a: Array, log_a: Array, b: Array, log_b: Array) -> None:
    if a.ndim < 1:
        raise ValueError("output_a must have shape (..., query_len, value_dim), got a number")
    expected = {"output_b": (b, a.shape), "lse_a": (log_a, a.shape[:-1])}
    for name, (array, shape) in (expected | {"lse_b": (log_b, a.shape[:-1])}).items():
        if array.shape != shape:
            raise ValueError(
                f"{name} must have shape {shape_text(shape)} to go with output_a of shape "
                f"{shape_text(a.shape)}, got {shape_text(array.shape)}"
            )
    for name, log in (("lse_a", log_a), ("lse_b", log_b)):
        if log.dtype.itemsize < 4:
            raise TypeError(
                f"{name} is {dtype_name(log)}, expected float32 or float64, as observe gives it"
            )
    for name, one, other in (("output_b", b, a), ("lse_b", log_b, log_a)):
        if not same_dtype(one, other):
            raise TypeError(
                f"{name} is {dtype_name(one)}, expected {dtype_name(other)} as the other has"
            )


def _share(output: Array, part: Array, whole: Array) -> Array:
    """Weigh a partial output; one that saw no key counts for nothing, whatever it holds."""
    seen = ~np.isneginf(part)
    weight = np.exp(np.where(seen, part, 0) - np.where(seen, whole, 0))
    return np.where(seen[..., None], weight[..., None] * widen(output), 0)
