"""From masks to what the kernels take: a small program in postfix order, and floats to add."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from headwise._arrays import Array, is_additive, to_additive, to_numpy
from headwise._binding import MASK_DEPTH, MASK_KINDS
from headwise._dense import additive_mask, boolean_mask
from headwise._errors import shape_text
from headwise._mask_kinds import (
    Band,
    Both,
    Dense,
    Documents,
    Either,
    Lengths,
    Mask,
    Prefix,
    operands,
    refuse_names,
)
from headwise._shapes import FAR, Sizes, broadcasts, check_broadcast, per_item
from headwise.biases import Bias

Step = tuple[Any, ...]  # a kind's number and what it needs, see MaskStep in cpp/arguments.hpp
Program = list[Step]

_UNBOUNDED = np.iinfo(np.int64).max
_ALL, _ANY = (MASK_KINDS["all_of"],), (MASK_KINDS["any_of"],)


class Lowered(NamedTuple):
    """A mask as the kernels take it: a program of who may attend, and an array of floats to add."""

    program: Program
    additive: Array | None = None

    @property
    def positional(self) -> bool:
        """Whether it depends on where query 0 stands."""
        return any(step[0] == MASK_KINDS["band"] for step in self.program)

    @property
    def arrays(self) -> list[Array]:
        """All arrays that kernels read."""
        return [x for step in self.program for x in step[1:] if isinstance(x, np.ndarray)]


def lower(mask: Any, sizes: Sizes) -> Lowered:
    """Bring any form of the ``mask`` argument into the kernels' form.

    Raises
    ------
    TypeError, ValueError
        For what is no mask, or does not fit; the texts say what to do.
    """
    if mask is None:
        return Lowered([])
    if isinstance(mask, Mask):
        try:
            return Lowered(_program(mask, sizes))
        except RecursionError:
            raise _too_deep() from None
    refuse_names(mask)
    if isinstance(mask, Bias):
        raise TypeError(f"mask is a bias, {mask!r}: pass it as bias=")
    array = to_numpy("mask", mask)
    if array.ndim < 1:
        raise ValueError(f"mask must have at least 1 dimension (kv_len), got the number {array}")
    if not is_additive(array):
        return Lowered(_dense(array, sizes))
    additive = additive_mask(to_additive("mask", array))
    check_broadcast("mask", additive.shape, sizes)
    return Lowered([], additive)


def _program(mask: Mask, sizes: Sizes) -> Program:
    if isinstance(mask, Both | Either):
        return _combine(mask, sizes)
    if isinstance(mask, Band):
        return _band(mask)
    if isinstance(mask, Lengths):
        return _lengths(mask, sizes)
    if isinstance(mask, Documents):
        return _documents(mask, sizes)
    if isinstance(mask, Prefix):
        ends = _items("n of prefix", mask.n, sizes)
        return [_ranges(np.zeros_like(ends), np.minimum(ends, sizes.kv_len))]
    if isinstance(mask, Dense):
        return _dense(to_numpy("mask", mask.array), sizes)
    raise TypeError(f"mask must be an array or made by headwise.masks, got {type(mask).__name__}")


def _combine(mask: Both | Either, sizes: Sizes) -> Program:
    """Put programs together, the deepest first, so that few operands wait; bands become one."""
    kind = type(mask)
    parts = operands(mask)
    if kind is Both:
        bands = [m for m in parts if isinstance(m, Band)]
        rest = [m for m in parts if not isinstance(m, Band)]
        parts = [reduce(_narrower, bands), *rest] if bands else rest
    programs = sorted((_program(m, sizes) for m in parts), key=_depth, reverse=True)
    if not programs[-1]:  # shows everything
        programs = [p for p in programs if p] if kind is Both else []
    join = _ALL if kind is Both else _ANY
    combined: Program = []
    for program in programs:
        combined += [*program, join] if combined else program
    if _depth(combined) > MASK_DEPTH:
        raise _too_deep()
    return combined


def _too_deep() -> ValueError:
    return ValueError(
        f"mask combines & and | more than {MASK_DEPTH - 1} levels deep: combine some of its parts "
        "to a boolean array with to_array"
    )


def _depth(program: Program) -> int:
    """Return how many operands wait at once when a program runs."""
    waiting = most = 0
    for step in program:
        waiting += -1 if len(step) == 1 else 1  # all_of, any_of; or a leaf
        most = max(most, waiting)
    return most


def _narrower(one: Band, other: Band) -> Band:
    def least(a: int | None, b: int | None) -> int | None:
        return b if a is None else a if b is None else min(a, b)

    return Band(least(one.left, other.left), least(one.right, other.right))


def _band(mask: Band) -> Program:
    left, right = (
        b if b is not None and b < 2 * FAR else _UNBOUNDED for b in (mask.left, mask.right)
    )
    return [] if left == right == _UNBOUNDED else [(MASK_KINDS["band"], left, right)]


def _dense(array: Array, sizes: Sizes) -> Program:
    boolean = boolean_mask(array)
    check_broadcast("mask", boolean.shape, sizes)
    return [(MASK_KINDS["array"], boolean)]


def _ranges(first: Array, last: Array) -> Step:
    """Return the step of ranges ``first <= j < last``, each ``(..., 1 or query_len)``."""
    pairs = np.stack(np.broadcast_arrays(first, last), axis=-1)
    return (MASK_KINDS["ranges"], np.ascontiguousarray(pairs[..., None, :, :], dtype=np.int64))


def _items(name: str, numbers: Array, sizes: Sizes) -> Array:
    """Return numbers of each item as ``(..., 1)``, for `_ranges`."""
    return per_item(name, numbers, sizes)[..., None]


def _lengths(mask: Lengths, sizes: Sizes) -> Program:
    first, last = _real(mask, "kv_lengths", sizes.kv_len, sizes)
    if mask.query_lengths is not None:
        begin, end = _real(mask, "query_lengths", sizes.query_len, sizes)
        i = np.arange(sizes.query_len)
        last = np.where((begin <= i) & (i < end), last, first)
    return [_ranges(first, last)]


def _real(mask: Lengths, name: str, size: int, sizes: Sizes) -> tuple[Array, Array]:
    """Return the range of real positions of each item, ``(..., 1)``."""
    mask.check(name, size)
    lengths = _items(name, getattr(mask, name), sizes)
    zeros = np.zeros_like(lengths)
    return (size - lengths, zeros + size) if mask.left else (zeros, lengths)


def _documents(mask: Documents, sizes: Sizes) -> Program:
    mask.check_lengths(sizes.query_len, sizes.kv_len)
    queries, keys = mask.query_ids, mask.key_ids
    for name, ids in (("query_ids", queries), ("key_ids", keys)):
        if not broadcasts(ids.shape[:-1], sizes.outer):
            raise ValueError(
                f"{name} of documents must have shape (..., {ids.shape[-1]}) with one row for each "
                f"batch item of shape {shape_text(sizes.outer)}, got {shape_text(ids.shape)}"
            )
    lead = np.broadcast_shapes(queries.shape[:-1], keys.shape[:-1])
    queries = np.broadcast_to(queries, (*lead, queries.shape[-1]))
    keys = np.broadcast_to(keys, (*lead, keys.shape[-1]))
    first, last = np.zeros((2, *queries.shape), np.int64)
    whole = True
    for item in np.ndindex(lead):
        first[item], last[item], together = _document_ranges(queries[item], keys[item])
        whole = whole and together
    program = [_ranges(first, last)]
    if whole:
        return program
    same = (MASK_KINDS["same"], queries[..., None, :, None], keys[..., None, :, None])
    return [*program, same, _ALL]


def _document_ranges(queries: Array, keys: Array) -> tuple[Array, Array, bool]:
    """Return where each query's document begins and ends, and whether no document has gaps."""
    ids, first, count = np.unique(keys, return_index=True, return_counts=True)
    if not len(ids):
        return np.zeros_like(queries), np.zeros_like(queries), True
    last = len(keys) - np.unique(keys[::-1], return_index=True)[1]
    place = np.minimum(np.searchsorted(ids, queries), len(ids) - 1)
    known = ids[place] == queries
    return (
        np.where(known, first[place], 0),
        np.where(known, last[place], 0),
        bool(np.all(last - first == count)),
    )


def lengths_of(mask: Any) -> list[Lengths]:
    """Return the padding masks that hold for all of ``mask``: alone, or joined by ``&``."""
    parts = operands(mask, Both) if isinstance(mask, Mask) else []
    return [part for part in parts if isinstance(part, Lengths)]


def has_lengths(mask: Any) -> bool:
    """Tell whether there is a padding mask anywhere in ``mask``."""
    parts = operands(mask, Mask) if isinstance(mask, Mask) else []
    return any(isinstance(part, Lengths) for part in parts)
