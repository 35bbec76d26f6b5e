"""Coarser maps and strips of maps and strips."""

from __future__ import annotations

import numpy as np

from headwise._arrays import Array


def factor(count: int, most: int) -> int:
    """Return how many neighbours must become one for ``count`` to come down to ``most``."""
    return -(-count // most)


def means(array: Array, by: int, sizes: Array, axis: int = -1) -> Array:
    """Return means of ``by`` neighbours along an axis, where each stands for ``sizes`` of a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.lens.pooling import means
    >>> means(np.array([1.0, 2.0, 6.0]), 2, np.array([3, 1, 1]))
    array([1.25, 6.  ])
    """
    if by == 1:
        return array
    along = np.moveaxis(np.asarray(array, np.float64), axis, -1)
    starts = np.arange(0, along.shape[-1], by)
    sums = np.add.reduceat(along * sizes, starts, axis=-1)
    return np.moveaxis(sums / np.add.reduceat(sizes, starts), -1, axis)


def largest(array: Array, by: int, axis: int = -1) -> Array:
    """Return the largest of ``by`` neighbours along an axis."""
    starts = np.arange(0, array.shape[axis], by)
    return array if by == 1 else np.maximum.reduceat(array, starts, axis=axis)


def block_sizes(length: int, block: int) -> Array:
    """Return how many of ``length`` each block holds: the last one may hold fewer."""
    starts = np.arange(0, length, block)
    return np.minimum(length - starts, block)


def pooled_map(array: Array, sizes: tuple[Array, Array], by: tuple[int, int], kind: str) -> Array:
    """Pool a map ``(heads, rows, columns)`` further, ``by`` rows and columns into one cell."""
    if kind == "max":
        return largest(largest(array, by[1]), by[0], axis=-2)
    return means(means(array, by[1], sizes[1]), by[0], sizes[0], axis=-2)
