"""Shapes of an attention call: checked, named, and explained where they do not fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headwise._arrays import Array
from headwise._errors import shape_text

FAR = 1 << 40  # no sequence is as long as this


class Sizes(NamedTuple):
    """Shapes of one call; ``num_heads`` is None below rank 3, where there is no such axis."""

    outer: tuple[int, ...]
    num_heads: int | None
    query_len: int
    kv_len: int
    head_dim: int
    value_dim: int

    @property
    def heads(self) -> int:
        """How many heads there are; one where there is no such axis."""
        return 1 if self.num_heads is None else self.num_heads

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


def sizes_of(q: Array, k: Array, v: Array) -> Sizes:
    """Read the sizes of a call off its operands and check that they fit."""
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


def broadcasts(shape: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Tell whether a shape broadcasts to another without making it larger."""
    padded = (1,) * (len(want) - len(shape)) + shape
    return len(padded) == len(want) and all(n in {1, m} for n, m in zip(padded, want, strict=True))


def check_broadcast(name: str, shape: tuple[int, ...], sizes: Sizes) -> None:
    """Check that a mask or bias broadcasts to the scores."""
    want = sizes.scores
    if broadcasts(shape, want):
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


def per_item(name: str, array: Array, sizes: Sizes) -> Array:
    """Broadcast what there is one of for each batch item."""
    try:
        return np.broadcast_to(array, sizes.outer)
    except ValueError:
        raise ValueError(
            f"{name} must be one number, or one for each batch item of shape "
            f"{shape_text(sizes.outer)}, got shape {shape_text(array.shape)}"
        ) from None
