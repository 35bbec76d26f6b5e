"""Maps of a text's weights, made smaller: sums and maxima of blocks, which grow as a text does."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.keeping import apart
from headwise.lens.views import Window

MAP_SIZE = 192  # rows and columns of a map at most, when a text begins: so many tokens are exact
WINDOW = 48  # queries and keys of a rectangle of exact weights
_MOST = 256  # and when it has grown


class BlockSums:
    """Sums and maxima of blocks of one text's queries and keys, all heads apart.

    Begins with what a kernel collected; single rows of exact weights follow while a text is
    generated. Where it grows too large, blocks become twice as large.
    """

    def __init__(self, seen: Any, item: int) -> None:
        found = seen.block_map
        self.block = (found.block_queries, found.block_keys)
        shown = ~np.isneginf(seen.lse[item])
        self.queries, self.keys = shown.shape[-1], int(seen.viewer_count.shape[-1])
        starts = np.arange(0, self.queries, self.block[0])
        self.rows = np.add.reduceat(shown, starts, axis=-1, dtype=np.int64)
        self.sums = apart(found.mean[item] * self._pairs(), np.float32)
        self.maxima = apart(found.max[item], np.float32)

    def append(self, weights: Array) -> None:
        """Add the exact weights ``(num_heads, queries, kv_len)`` of the queries that follow."""
        self.keys = weights.shape[-1]
        for row in np.moveaxis(weights, 1, 0):
            self._reserve()
            place = self.queries // self.block[0]
            starts = np.arange(0, self.keys, self.block[1])
            columns = slice(0, len(starts))
            self.sums[:, place, columns] += np.add.reduceat(row, starts, axis=-1)
            largest = np.maximum.reduceat(row, starts, axis=-1)
            self.maxima[:, place, columns] = np.maximum(self.maxima[:, place, columns], largest)
            self.rows[:, place] += 1
            self.queries += 1

    def mean(self) -> Array:
        """Return the mean weight of each block, ``(num_heads, rows, columns)``."""
        return np.asarray(self.sums / np.maximum(self._pairs(), 1), np.float32)

    def largest(self) -> Array:
        """Return the largest weight of each block, ``(num_heads, rows, columns)``."""
        return np.asarray(self.maxima, np.float32)

    def _pairs(self) -> Array:
        ends = np.arange(0, self.keys + self.block[1], self.block[1])
        in_column = np.diff(np.minimum(ends, self.keys))
        return self.rows[..., None] * in_column[in_column > 0]

    def _reserve(self) -> None:
        """Make room for one more row, and for all keys."""
        while max(self.queries // self.block[0], -(-self.keys // self.block[1])) >= _MOST:
            self._coarsen()
        missing = (self.queries // self.block[0] + 1 - self.sums.shape[1],
                   -(-self.keys // self.block[1]) - self.sums.shape[2])  # fmt: skip
        more = [(0, 0), *((0, max(0, n)) for n in missing)]
        self.sums, self.maxima = np.pad(self.sums, more), np.pad(self.maxima, more)
        self.rows = np.pad(self.rows, more[:2])

    def _coarsen(self) -> None:
        self.block = (2 * self.block[0], 2 * self.block[1])
        for axis in (1, 2):
            starts = np.arange(0, self.sums.shape[axis], 2)
            self.sums = np.add.reduceat(self.sums, starts, axis=axis)
            self.maxima = np.maximum.reduceat(self.maxima, starts, axis=axis)
        self.rows = np.add.reduceat(self.rows, np.arange(0, self.rows.shape[1], 2), axis=1)


def choose_windows(seen: Any, item: int) -> list[Window]:
    """Return a rectangle of exact weights of each head of a layer, where there is most to see.

    That is around the largest weight away from the first keys and from the diagonal, which the map
    shows anyway. None where the map itself is exact.
    """
    found = seen.block_map
    if (found.block_queries, found.block_keys) == (1, 1):
        return []
    queries, keys = seen.lse.shape[-1], seen.viewer_count.shape[-1]
    largest = np.array(found.max[item])
    largest[..., 0] *= 0.01
    for place in range(largest.shape[1]):
        largest[:, place, max(0, place - 1) : place + 2] *= 0.1
    windows = []
    for head, cells in enumerate(largest):
        row, column = np.unravel_index(int(np.argmax(cells)), cells.shape)
        i = _centred(int(row), found.block_queries, queries)
        j = _centred(int(column), found.block_keys, keys)
        weights = seen.weights(heads=head, queries=i, keys=j)[item]
        windows.append(Window(0, head, i.start, j.start, np.asarray(weights, np.float32)))
    return windows


def _centred(cell: int, block: int, length: int) -> slice:
    start = min(max(0, cell * block + block // 2 - WINDOW // 2), max(0, length - WINDOW))
    return slice(start, min(start + WINDOW, length))
