"""Where a query's token stands among the keys, as the kernels want it."""

from __future__ import annotations

import numpy as np

from headwise._arrays import Array


def places_of_copies(
    target_ids: Array, source_ids: Array, shift: int, positions: Array
) -> tuple[Array, Array, Array]:
    """Return the keys j with ``source[j + shift] = target[i]``, up to each query's own position.

    Parameters
    ----------
    target_ids, source_ids
        ``(items, query_len)`` and ``(items, kv_len)``.
    shift
        How far behind a key its token is looked up.
    positions
        ``(items, query_len)``: where the queries stand on the keys' axis.

    Returns
    -------
    keys, first, last
        ``(items, kv_len)`` and twice ``(items, query_len)``: of query i they are ``keys[first[i]]``
        to ``keys[last[i] - 1]``, ascending.
    """
    keys = source_ids.shape[-1]
    ranks = np.unique(np.concatenate([target_ids, source_ids], axis=None), return_inverse=True)[1]
    target = ranks[: target_ids.size].reshape(target_ids.shape)
    source = _shifted(ranks[target_ids.size :].reshape(source_ids.shape), shift)
    order = np.argsort(source, axis=-1, kind="stable")
    places = np.take_along_axis(source, order, -1) * keys + order  # ascending
    own = np.clip(positions, -1, keys - 1)
    first, last = (np.empty(target.shape, np.int64) for _ in range(2))
    for item in range(len(target)):
        begin = target[item] * keys
        first[item] = np.searchsorted(places[item], begin)
        last[item] = np.searchsorted(places[item], begin + own[item], side="right")
    return order, first, last


def _shifted(source: Array, shift: int) -> Array:
    """Return what stands ``shift`` behind each key; -1, which no query has, where nothing does."""
    keys = source.shape[-1]
    shifted = np.full(source.shape, -1)
    begin, end = max(0, -shift), min(keys, keys - shift)
    if begin < end:
        shifted[:, begin:end] = source[:, begin + shift : end + shift]
    return shifted
