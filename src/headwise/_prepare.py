"""From the arguments of an attention call to what the kernels take: checks, shapes, defaults."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict

import numpy as np

from headwise._arrays import (
    Array,
    dtype_name,
    is_torch,
    same_dtype,
    to_additive,
    to_numbers,
    to_operand,
    widen,
    working_dtype,
)
from headwise._errors import shape_text
from headwise._lowering import Lowered, lower
from headwise._mask_kinds import Mask
from headwise._numbers import finite_number
from headwise._positions import resolve_query_offset
from headwise._shapes import Sizes, check_broadcast, sizes_of
from headwise._threads import check_num_threads, get_num_threads
from headwise.biases import Alibi, Bias, DenseBias, Relative, add, parts_of


class Options(TypedDict, total=False):
    """What every attention call takes beside operands and mask.

    The meanings are those of `headwise.scaled_dot_product_attention`.
    """

    query_offset: Any
    scale: float | None
    bias: Any
    softcap: float | None
    sink_logits: Any
    num_threads: int | None


class Scoring(NamedTuple):
    """What comes into the scores, in the kernels' order."""

    scale: float
    softcap: float  # 0: none
    bias: Array | None
    slopes: Array | None  # (num_heads,)
    table: Array | None  # (num_heads, 2 · reach + 1)
    sinks: Array | None  # (num_heads,)

    @property
    def positional(self) -> bool:
        """Whether it depends on where query 0 stands."""
        return self.slopes is not None or self.table is not None


class Prepared(NamedTuple):
    """One call, checked: operands, masks, positions and settings."""

    query: Array
    key: Array
    value: Array
    sizes: Sizes
    mask: Lowered
    scoring: Scoring
    query_offset: int | Array | None  # None: not said, and nothing depends on it
    threads: tuple[int, bool]  # how many, and whether PyTorch's may do it: for its tensors

    @property
    def dtype(self) -> np.dtype[Any]:
        """The result's dtype: the query's, in this machine's byte order."""
        return self.query.dtype.newbyteorder("=")

    @property
    def working_dtype(self) -> np.dtype[Any]:
        """The precision of scores, sums and statistics."""
        return working_dtype(self.query.dtype)

    @property
    def operands(self) -> list[Array]:
        """All arrays that the kernels read."""
        arrays = [self.query, self.key, self.value, self.scoring.bias, *self.mask.arrays]
        return [array for array in arrays if array is not None]


def prepare(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    *,
    query_offset: Any = None,
    scale: Any = None,
    bias: Any = None,
    softcap: Any = None,
    sink_logits: Any = None,
    num_threads: Any = None,
) -> Prepared:
    """Check the arguments of an attention call and bring them into the kernels' form."""
    q, k, v = to_operand("query", query), to_operand("key", key), to_operand("value", value)
    _check_dtypes(q, k, v)
    sizes = sizes_of(q, k, v)
    lowered = lower(mask, sizes)
    dense, slopes, table = _biases(bias, sizes)
    scoring = Scoring(
        check_scale(scale, sizes.head_dim),
        _check_softcap(softcap),
        _sum_biases(lowered.additive, dense),
        slopes,
        table,
        _sinks(sink_logits, sizes),
    )
    needed_by = "the mask" if lowered.positional else "the bias" if scoring.positional else None
    return Prepared(
        q,
        k,
        v,
        sizes,
        lowered,
        scoring,
        resolve_query_offset(query_offset, sizes, mask, needed_by),
        (
            get_num_threads() if num_threads is None else check_num_threads(num_threads),
            is_torch(query),
        ),
    )


def _check_dtypes(q: Array, k: Array, v: Array) -> None:
    """Check that key and value have the query's dtype, or 16 bits where the query is float32."""
    for name, array in (("key", k), ("value", v)):
        mixed = q.dtype.itemsize == 4 and array.dtype.itemsize == 2
        if not mixed and not same_dtype(array, q):
            raise TypeError(
                f"{name} is {dtype_name(array)} and query is {dtype_name(q)}, expected the same, "
                "or float16 or bfloat16 with a float32 query: convert one of them (lists and whole "
                "numbers count as float64)"
            )


def _biases(bias: Any, sizes: Sizes) -> tuple[Array | None, Array | None, Array | None]:
    """Split a bias into one dense array, slopes, and a table, each where there is any."""
    if bias is None:
        return None, None, None
    if isinstance(bias, Mask):
        raise TypeError(f"bias is a mask, {bias!r}: pass it as mask=")
    if not isinstance(bias, Bias):
        return _dense_bias(bias, sizes), None, None
    dense = slopes = table = None
    for part in parts_of(bias):
        if isinstance(part, DenseBias):
            dense = _sum_biases(dense, _dense_bias(part.array, sizes))
        elif isinstance(part, Alibi):
            more = _each_head("slopes of alibi", part.slopes, sizes)
            slopes = more if slopes is None else slopes + more
        elif isinstance(part, Relative):
            more = _each_head("table of relative", part.table, sizes)
            table = more if table is None else _sum_tables(table, more)
        else:
            raise TypeError(f"bias must be made by headwise.biases, got {type(part).__name__}")
    return dense, slopes, table


def _dense_bias(bias: Any, sizes: Sizes) -> Array:
    array = to_additive("bias", bias)
    if array.ndim < 1:
        raise ValueError(f"bias must have at least 1 dimension (kv_len), got the number {array}")
    check_broadcast("bias", array.shape, sizes)
    return array


def _each_head(name: str, array: Array, sizes: Sizes) -> Array:
    """Check that there is one entry for each head."""
    if array.shape[0] != sizes.heads:
        raise ValueError(
            f"{name} must hold one entry for each of {sizes.heads} heads (first dimension), got "
            f"shape {shape_text(array.shape)}"
        )
    return array


def _sum_tables(one: Array, other: Array) -> Array:
    reach = max(one.shape[-1], other.shape[-1]) // 2
    wide = (np.pad(t, ((0, 0), (reach - t.shape[-1] // 2,) * 2), "edge") for t in (one, other))
    return np.ascontiguousarray(add(*wide))


def _sum_biases(one: Array | None, other: Array | None) -> Array | None:
    """Add two dense biases, in float64."""
    if one is None or other is None:
        return other if one is None else one
    return np.asarray(add(*(widen(x).astype(np.float64) for x in (one, other))))


def _sinks(sink_logits: Any, sizes: Sizes) -> Array | None:
    if sink_logits is None:
        return None
    array = to_numbers("sink_logits", sink_logits)
    heads = sizes.heads
    if array.shape not in {(heads,), ()}:
        raise ValueError(
            f"sink_logits must have shape (num_heads,) = ({heads},), or be one number for all, got "
            f"shape {shape_text(array.shape)}"
        )
    if not (np.isfinite(array) | np.isneginf(array)).all():
        raise ValueError("sink_logits must be finite, or -inf for a head without a sink")
    return np.array(np.broadcast_to(array, heads))


def check_scale(scale: Any, head_dim: int) -> float:
    """Return the factor of the scores, 1/√head_dim by default."""
    if scale is None:
        return 1.0 / math.sqrt(head_dim) if head_dim else 1.0
    return finite_number("scale", scale, " or None (1/√head_dim)")


def _check_softcap(softcap: Any) -> float:
    """Return the cap of the scores, 0 where there is none."""
    if softcap is None:
        return 0.0
    number = finite_number("softcap", softcap, " or None (no cap)")
    if number <= 0:
        raise ValueError(f"softcap must be greater than 0, or None for no cap, got {number}")
    return number
