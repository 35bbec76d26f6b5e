"""Where query 0 stands on the keys' axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise._arrays import Array, to_numpy
from headwise._lowering import has_lengths, lengths_of
from headwise._shapes import FAR, Sizes, per_item

CORNERS = ("upper_left", "lower_right")


def resolve_query_offset(
    offset: Any, sizes: Sizes, mask: Any = None, needed_by: str | None = None
) -> int | Array | None:
    """Return where query 0 stands on the keys' axis: one number, or one for each outer item.

    Parameters
    ----------
    offset
        As in `headwise.scaled_dot_product_attention`.
    mask
        Padding in it moves the corners.
    needed_by
        What depends on positions, such as "the mask"; None where nothing does.

    Returns
    -------
    int, array or None
        None where it was not said, cannot be known and nothing depends on it.
    """
    if offset is None:
        if sizes.query_len == sizes.kv_len:
            return 0
        if needed_by is not None:
            raise_missing_offset(sizes, needed_by)
        return None
    if isinstance(offset, str):
        return _corner(offset, sizes, mask)
    array = to_numpy("query_offset", offset)
    whole = array.dtype.kind in "iu" or array.size == 0
    if not whole and not all(isinstance(x, int) for x in array.flat):
        raise TypeError(
            f'query_offset must be "upper_left", "lower_right" or whole numbers, got '
            f"{type(offset).__name__} of dtype {array.dtype}"
        )
    if array.size and max(abs(int(array.min())), abs(int(array.max()))) > FAR:
        raise ValueError(f"query_offset must lie within ±2**40, got {offset!r}"[:200])
    return int(array) if array.ndim == 0 else _each("query_offset", array, sizes)


def _each(name: str, array: Array, sizes: Sizes) -> Array:
    return np.ascontiguousarray(per_item(name, array, sizes), dtype=np.int64)


def _corner(corner: str, sizes: Sizes, mask: Any) -> int | Array:
    """Align the first query with the first key, or the last with the last: of the real ones."""
    if corner not in CORNERS:
        raise ValueError(
            f'query_offset must be "upper_left", "lower_right" or whole numbers, got {corner!r}'
        )
    padding = lengths_of(mask)
    if len(padding) > 1 or (not padding and has_lengths(mask)):
        raise ValueError(
            f'query_offset="{corner}" needs one padding mask that holds everywhere: join a single '
            "lengths(...) to the rest with &, or give query_offset as numbers"
        )
    upper_left = corner == "upper_left"
    if not padding or upper_left != padding[0].left:  # the corner of the array itself
        return 0 if upper_left else sizes.kv_len - sizes.query_len
    queries = padding[0].query_lengths
    queries = np.asarray(sizes.query_len) if queries is None else queries
    ahead = _each("kv_lengths", padding[0].kv_lengths, sizes) - _each(
        "query_lengths", queries, sizes
    )
    return ahead if not upper_left else sizes.kv_len - sizes.query_len - ahead


def raise_missing_offset(sizes: Sizes, what: str) -> None:
    """Raise the error of a call whose positions are not defined."""
    lower_right = sizes.kv_len - sizes.query_len
    raise ValueError(
        f"{what} depends on positions, and query_len {sizes.query_len} differs from kv_len "
        f"{sizes.kv_len}: say where query 0 stands on the keys' axis with "
        f'query_offset="lower_right" (query 0 at key {lower_right}; the last query sees the last '
        f'key, as in decoding) or query_offset="upper_left" (query 0 at key 0), or give a number'
    )
