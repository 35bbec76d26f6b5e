"""From the arguments of an attention call to what the kernels take: checks, shapes, defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise._arrays import Array, to_numpy, to_operand
from headwise._errors import shape_text
from headwise._threads import check_num_threads, get_num_threads
from headwise.masks import Band, lower

CORNERS = ("upper_left", "lower_right")
_FAR = 1 << 40  # no sequence is as long as this


@dataclass(frozen=True)
class Sizes:
    """Shapes of one call; ``num_heads`` is None below rank 3, where there is no such axis."""

    outer: tuple[int, ...]
    num_heads: int | None
    query_len: int
    kv_len: int
    head_dim: int
    value_dim: int

    @property
    def rows(self) -> tuple[int, ...]:
        """Shape of a row statistic, ``(..., num_heads, query_len)``."""
        heads = () if self.num_heads is None else (self.num_heads,)
        return (*self.outer, *heads, self.query_len)

    @property
    def output(self) -> tuple[int, ...]:
        """Shape of the output, ``(..., num_heads, query_len, value_dim)``."""
        return (*self.rows, self.value_dim)

    @property
    def scores(self) -> tuple[int, ...]:
        """Shape of scores, masks and biases, ``(..., num_heads, query_len, kv_len)``."""
        return (*self.rows, self.kv_len)


@dataclass(frozen=True)
class Prepared:
    """One call, checked: operands, masks, positions and settings."""

    query: Array
    key: Array
    value: Array
    sizes: Sizes
    boolean: Array | None
    bias: Array | None
    band: Band
    query_offset: int | Array | None  # None: not said, and nothing depends on it
    scale: float
    num_threads: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The result's dtype: the query's, in this machine's byte order."""
        return self.query.dtype.newbyteorder("=")


def prepare(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    *,
    query_offset: Any,
    scale: Any,
    bias: Any,
    num_threads: Any,
) -> Prepared:
    """Check the arguments of an attention call and bring them into the kernels' form."""
    q, k, v = to_operand("query", query), to_operand("key", key), to_operand("value", value)
    _check_same_dtype(q, k, v)
    sizes = _sizes(q, k, v)
    lowered = lower(mask)
    boolean, additive, added = lowered.boolean, lowered.additive, _bias(bias)
    for name, array in (("mask", boolean), ("mask", additive), ("bias", added)):
        if array is not None:
            _check_broadcast(name, array.shape, sizes)
    return Prepared(
        q,
        k,
        v,
        sizes,
        boolean,
        _sum_biases(additive, added),
        lowered.band,
        resolve_query_offset(query_offset, sizes, positional=lowered.positional),
        check_scale(scale, sizes.head_dim),
        get_num_threads() if num_threads is None else check_num_threads(num_threads),
    )


def _check_same_dtype(q: Array, k: Array, v: Array) -> None:
    for name, array in (("key", k), ("value", v)):
        if array.dtype.itemsize != q.dtype.itemsize:
            raise TypeError(
                f"{name} is {array.dtype} and query is {q.dtype}, expected the same: convert one "
                "of them (lists and whole numbers count as float64)"
            )


def _sizes(q: Array, k: Array, v: Array) -> Sizes:
    for name, array, last in (("query", q, "query_len, head_dim"), ("key", k, "kv_len, head_dim"),
                              ("value", v, "kv_len, value_dim")):  # fmt: skip
        if array.ndim < 2:
            raise ValueError(
                f"{name} must have at least 2 dimensions (..., {last}), got shape "
                f"{shape_text(array.shape)}"
            )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"query and key must have the same head_dim (last dimension), got {q.shape[-1]} and "
            f"{k.shape[-1]} in shapes {shape_text(q.shape)} and {shape_text(k.shape)}"
        )
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(
            f"key and value must have the same kv_len (second last dimension), got {k.shape[-2]} "
            f"and {v.shape[-2]} in shapes {shape_text(k.shape)} and {shape_text(v.shape)}"
        )
    return Sizes(
        _outer(q, k, v), _num_heads(q, k, v), q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
    )


def _outer(q: Array, k: Array, v: Array) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    except ValueError:
        raise ValueError(
            "the leading dimensions of query, key and value must broadcast, got shapes "
            f"{shape_text(q.shape)}, {shape_text(k.shape)} and {shape_text(v.shape)}"
        ) from None


def _num_heads(q: Array, k: Array, v: Array) -> int | None:
    """Check the head axis (-3): grouped from 4 dimensions on, broadcast below."""
    heads, kv_heads, value_heads = (a.shape[-3] if a.ndim > 2 else 1 for a in (q, k, v))
    if kv_heads != value_heads:
        raise ValueError(
            f"key and value must have the same number of heads (dimension -3), got {kv_heads} and "
            f"{value_heads} in shapes {shape_text(k.shape)} and {shape_text(v.shape)}"
        )
    rank = max(q.ndim, k.ndim, v.ndim)
    if rank == 2:
        return None
    if rank == 3 and 1 in {heads, kv_heads}:
        return max(heads, kv_heads) if 0 not in {heads, kv_heads} else 0
    if heads == kv_heads or (rank > 3 and kv_heads > 0 and heads % kv_heads == 0):
        return heads
    shapes = f"shapes {shape_text(q.shape)} and {shape_text(k.shape)}"
    if rank == 3:
        raise ValueError(
            f"the leading dimensions of query and key must broadcast, got {shapes}: grouped heads "
            "need 4 dimensions (batch, heads, length, dim); pass query[None], key[None] and "
            "value[None]"
        )
    raise ValueError(
        f"num_heads must be a multiple of num_kv_heads (dimension -3), got {heads} and {kv_heads} "
        f"in {shapes}"
    )


def _bias(bias: Any) -> Array | None:
    if bias is None:
        return None
    array = to_numpy("bias", bias)
    if array.dtype.kind != "f" or array.dtype.itemsize not in {4, 8}:
        advice = "pass it as mask=" if array.dtype.kind in "b" else "convert it first"
        raise TypeError(f"bias has dtype {array.dtype}, expected float32 or float64: {advice}")
    if array.ndim < 1:
        raise ValueError(f"bias must have at least 1 dimension (kv_len), got the number {array}")
    return array


def _sum_biases(mask: Array | None, bias: Array | None) -> Array | None:
    """Add a float mask and a bias; where either is -inf, the key is hidden."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    most = np.finfo(np.float64).max
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.add(mask, bias, dtype=np.float64)
        finite = np.isfinite(mask) & np.isfinite(bias)
        total = np.where(finite, np.clip(total, -most, most), total)
    return np.where(np.isneginf(mask) | np.isneginf(bias), -np.inf, total)


def _check_broadcast(name: str, shape: tuple[int, ...], sizes: Sizes) -> None:
    want = sizes.scores
    padded = (1,) * (len(want) - len(shape)) + shape
    if len(padded) == len(want) and all(n in {1, m} for n, m in zip(padded, want, strict=True)):
        return
    raise ValueError(
        f"{name} must broadcast to (..., num_heads, query_len, kv_len) = {shape_text(want)}, got "
        f"shape {shape_text(shape)}{_shape_hint(name, shape, want)}"
    )


def _shape_hint(name: str, shape: tuple[int, ...], want: tuple[int, ...]) -> str:
    """Say how a mask of each batch item is meant to be passed, where this looks like one."""
    if len(want) < 4:
        return ""
    if shape == (*want[:-3], want[-1]):
        return f": one {name} of keys for each batch item; pass {name}[..., None, None, :]"
    if shape == (*want[:-3], *want[-2:]):
        right = shape_text((*want[:-3], 1, *want[-2:]))
        return f": one {name} for each batch item has shape {right}; pass {name}[..., None, :, :]"
    return ""


def resolve_query_offset(offset: Any, sizes: Sizes, *, positional: bool) -> int | Array | None:
    """Return where query 0 stands on the keys' axis: one number, or one for each outer item.

    None where it was not said, cannot be known and nothing asked for depends on it.
    """
    if offset is None:
        if sizes.query_len == sizes.kv_len:
            return 0
        if positional:
            raise_missing_offset(sizes, "the mask")
        return None
    if isinstance(offset, str):
        if offset not in CORNERS:
            raise ValueError(
                f'query_offset must be "upper_left", "lower_right" or whole numbers, got {offset!r}'
            )
        return 0 if offset == "upper_left" else sizes.kv_len - sizes.query_len
    array = to_numpy("query_offset", offset)
    if array.dtype.kind == "O":
        raise ValueError(f"query_offset must lie within ±2**40, got {offset!r}"[:200])
    if array.dtype.kind not in "iu":
        raise TypeError(
            f'query_offset must be "upper_left", "lower_right" or whole numbers, got '
            f"{type(offset).__name__} of dtype {array.dtype}"
        )
    if array.size and max(abs(int(array.min())), abs(int(array.max()))) > _FAR:
        raise ValueError(f"query_offset must lie within ±2**40, got {offset!r}")
    return int(array) if array.ndim == 0 else _offset_per_item(array, sizes)


def _offset_per_item(array: Array, sizes: Sizes) -> Array:
    try:
        return np.array(np.broadcast_to(array, sizes.outer), dtype=np.int64)
    except ValueError:
        raise ValueError(
            f"query_offset must be one number, or one for each batch item of shape "
            f"{shape_text(sizes.outer)}, got shape {shape_text(array.shape)}"
        ) from None


def raise_missing_offset(sizes: Sizes, what: str) -> None:
    """Raise the error of a call whose positions are not defined."""
    lower_right = sizes.kv_len - sizes.query_len
    raise ValueError(
        f"{what} depends on positions, and query_len {sizes.query_len} differs from kv_len "
        f"{sizes.kv_len}: say where query 0 stands on the keys' axis with "
        f'query_offset="lower_right" (query 0 at key {lower_right}; the last query sees the last '
        f'key, as in decoding) or query_offset="upper_left" (query 0 at key 0), or give a number'
    )


def check_scale(scale: Any, head_dim: int) -> float:
    """Return the factor of the scores, 1/√head_dim by default."""
    if scale is None:
        return 1.0 / math.sqrt(head_dim) if head_dim else 1.0
    try:
        number = None if isinstance(scale, bool | np.bool_ | str | bytes) else float(scale)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise TypeError(f"scale must be a number or None, got {scale!r}"[:200])
    if not math.isfinite(number):
        raise ValueError(f"scale must be finite, got {number}")
    return number
