"""What is left of a mask when queries, keys and batch items are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise._arrays import Array, to_numpy
from headwise._mask_kinds import Band, Both, Dense, Documents, Either, Lengths, Mask, Prefix

EVERYTHING = Band()


def cut(
    mask: Mask | None, item: int | None, queries: slice, keys: slice, lengths: tuple[int, int]
) -> Mask | None:
    """Return a mask of some queries and keys that follow one another; None where it hides nothing.

    Parameters
    ----------
    mask
        Of ``lengths`` (query_len, kv_len).
    item
        The batch item; None keeps all.
    queries, keys
        Slices with start and stop. Who uses the result says that query 0 stands at the old
        ``query_offset + queries.start - keys.start``.
    """
    part = None if mask is None else _cut(mask, item, queries, keys, lengths)
    return None if part == EVERYTHING else part


def _cut(
    mask: Mask, item: int | None, queries: slice, keys: slice, lengths: tuple[int, int]
) -> Mask:
    if isinstance(mask, Both | Either):
        one, other = (_cut(m, item, queries, keys, lengths) for m in (mask.one, mask.other))
        return _joined(mask, one, other)
    if isinstance(mask, Lengths):
        return _cut_lengths(mask, item, queries, keys, lengths)
    if isinstance(mask, Documents):
        ids = (
            _of_item(mask.query_ids, item)[..., queries],
            _of_item(mask.key_ids, item)[..., keys],
        )
        return Documents(*(np.ascontiguousarray(x) for x in ids))
    if isinstance(mask, Prefix):
        return Prefix(np.maximum(_of_item(mask.n, item, 0) - keys.start, 0))
    if isinstance(mask, Dense):
        return _cut_array(to_numpy("mask", mask.array), item, queries, keys)
    return mask  # a band is the same everywhere


def _joined(mask: Mask, one: Mask, other: Mask) -> Mask:
    if isinstance(mask, Either):
        return EVERYTHING if EVERYTHING in {one, other} else one | other
    if one == EVERYTHING:
        return other
    return one if other == EVERYTHING else one & other


def _of_item(array: Array, item: int | None, own: int = 1) -> Array:
    """Pick what an array has for a batch item, beside ``own`` dimensions of its own."""
    if item is None or array.ndim <= own:
        return array
    return np.asarray(array[item if len(array) > 1 else 0])


def _cut_lengths(
    mask: Lengths, item: int | None, queries: slice, keys: slice, lengths: tuple[int, int]
) -> Mask:
    whole: Mask = EVERYTHING
    for real, part, size, axis in (
        (mask.kv_lengths, keys, lengths[1], -2),
        (mask.query_lengths, queries, lengths[0], -1),
    ):
        if real is None:
            continue
        counts = _of_item(real, item, 0)[..., None]
        places = np.arange(part.start, part.stop)
        shown = places >= size - counts if mask.left else places < counts
        if not shown.all():
            array = np.expand_dims(shown, axis)
            dense = Dense(array[..., None, :, :] if array.ndim > 2 else array)
            whole = dense if whole == EVERYTHING else whole & dense
    return whole


def _cut_array(array: Array, item: int | None, queries: slice, keys: slice) -> Mask:
    if array.ndim > 3 and item is not None:
        array = array[item : item + 1] if len(array) > 1 else array
    rows: Any = queries if array.ndim > 1 and array.shape[-2] > 1 else slice(None)
    columns: Any = keys if array.shape[-1] > 1 else slice(None)
    part = array[..., rows, columns] if array.ndim > 1 else array[columns]
    return EVERYTHING if part.all() else Dense(part)
