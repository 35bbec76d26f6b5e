"""Numbers by distance, and classes of distances that grow with them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from headwise._arrays import Array


class ByDistance(NamedTuple):
    """Numbers by distance ``i + offset - j``, positive where the key lies before the query.

    ``values`` is ``(..., num_heads, distances)``; entry k holds the distances from ``first[k]`` to
    ``last[k]``.
    """

    values: Any
    first: Any
    last: Any


# The greatest distance of each class: 0, 1, ..., 8, and from there four classes in each doubling.
_QUARTERS = (8 * 2 ** (k / 4) for k in range(1, 4 * 38))
DISTANCE_ENDS = np.array([*range(9), *(math.floor(end) for end in _QUARTERS)])


def distance_class(distances: Array) -> Array:
    """Return the number of each distance's class, 0 for 0; negative where the key is ahead."""
    return np.asarray(np.sign(distances) * np.searchsorted(DISTANCE_ENDS, abs(distances)))


def class_ends(number: int) -> tuple[int, int]:
    """Return the least and the greatest distance of a class."""
    far = int(DISTANCE_ENDS[abs(number)])
    near = int(DISTANCE_ENDS[abs(number) - 1]) + 1 if number else 0
    return (near, far) if number >= 0 else (-far, -near)


def on_common_axis(array: Array, shifts: Array, spread: int) -> Array:
    """Bring the distances of items that begin at different places to one axis."""
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + spread), array.dtype)
    for item, shift in enumerate(shifts):
        wide[item, :, shift : shift + array.shape[-1]] = array[item]
    return wide
