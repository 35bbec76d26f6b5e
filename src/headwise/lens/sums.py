"""What is kept of a head: sums, counts and extremes, which add up over texts, batches and machines.

All are arrays ``(num_heads, ...)`` in float64 or int64, by name. Means come out of them in
`headwise.lens.measures`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise._distances import ByDistance, class_ends, distance_class
from headwise.observation import Observation
from headwise.statistics import STATISTICS

Sums = dict[str, Array]

# Row statistics that are summed over the queries that see a key.
ROW_STATISTICS = (
    "entropy", "normalized_entropy", "max_weight", "distance", "normalized_distance", "self_weight",
    "next_weight", "sink_weight", "output_norm", "max_score",
)  # fmt: skip
LATER = ("previous_weight", "first_weight")  # and over those that have a token before them

REACH = 128  # how far away the largest weight may be to count for one fixed offset
FIRST_KEYS = 4  # whose received weight is kept
SINK = 0.3  # mean received weight above which a key is a sink (Gu et al. 2024)
CLASSES = int(distance_class(np.array(1 << 30)))  # of distances, to either side
VERTICAL_KEYS = 3  # what so many keys of a text receive is its vertical mass


def add(whole: Sums, more: Mapping[str, Array]) -> None:
    """Add the sums of other texts, in place; names that are new are taken over."""
    for name, array in more.items():
        if name not in whole:
            whole[name] = np.array(array)
        else:
            whole[name] = (np.maximum if _is_extreme(name) else np.add)(whole[name], array)


def stack(layers: Sequence[Sums]) -> Sums:
    """Put the sums of layers side by side: ``(num_layers, num_heads, ...)``.

    Where a layer has no such sum, or fewer heads than others, nothing was seen.
    """
    whole: Sums = {}
    for name in dict.fromkeys(name for layer in layers for name in layer):
        arrays = [layer.get(name) for layer in layers]
        given = [array for array in arrays if array is not None]
        shape = [max(sizes) for sizes in zip(*(array.shape for array in given), strict=True)]
        nothing = -np.inf if _is_extreme(name) else 0
        whole[name] = np.full((len(layers), *shape), nothing, given[0].dtype)
        for row, array in enumerate(arrays):
            if array is not None:
                place: Any = (row, *(slice(0, n) for n in array.shape))
                whole[name][place] = array
    return whole


def _is_extreme(name: str) -> bool:
    return name.startswith("largest")


def of_rows(seen: Observation, first_position: int | None, dropped: int = 0) -> Sums:
    """Sum up the row statistics of ``(batch, num_heads, query_len)``.

    ``first_position`` is where the first query stands in its text; None where that means nothing,
    as in cross-attention. ``dropped`` says how many tokens stand before the first key: a window's
    cache lets go of them.
    """
    shown = ~np.isneginf(seen.lse)
    sums: Sums = {
        "rows": _count(shown),
        "empty_rows": _count(~shown),
        "largest_score": np.max(np.where(shown, seen.max_score, -np.inf), axis=(0, 2)),
    }
    for name in ROW_STATISTICS:
        if name in seen.statistics:
            sums[name] = _total(getattr(seen, name), shown)
    if first_position is not None:
        sums |= _placed(seen, shown, first_position, dropped)
    return sums


def _placed(seen: Observation, shown: Array, first_position: int, dropped: int) -> Sums:
    """Sum up what depends on positions."""
    positions = first_position + np.arange(shown.shape[-1])
    later = shown & (positions > 0)
    first = _total(seen.first_weight, later)
    sums: Sums = {
        "placed_rows": _count(shown),
        "later_rows": _count(later),
        "previous_weight": _total(seen.previous_weight, later),
        "first_weight": 0 * first if dropped else first,
    }
    offsets = positions - dropped - seen.argmax
    near = shown & (abs(offsets) <= REACH) & (seen.argmax >= 0)
    counts = np.zeros((shown.shape[1], 2 * REACH + 1), np.int64)
    np.add.at(counts, (np.nonzero(near)[1], offsets[near] + REACH), 1)
    return sums | {"argmax_offsets": counts}


def of_diagonal(weights: Array, first_position: int, distance: int) -> Sums:
    """Sum up the ``(batch, num_heads, query_len)`` weights at a fixed distance."""
    reaches = first_position + np.arange(weights.shape[-1]) >= distance
    which = np.broadcast_to(reaches, weights.shape)
    return {"induction_mass": _total(weights, which), "induction_pairs": _count(which)}


def of_copies(stripes: Mapping[str, Array], repeated: Array) -> Sums:
    """Sum up ``(batch, num_heads, query_len)`` stripes over the ``(batch, query_len)`` repeated."""
    which = np.broadcast_to(repeated[:, None], next(iter(stripes.values())).shape)
    return {"copied_rows": _count(which)} | {n: _total(x, which) for n, x in stripes.items()}


def of_distances(mass: ByDistance, pairs: Array) -> Sums:
    """Bring ``(batch, num_heads, classes)`` of some texts to the classes that all texts share."""
    place = distance_class(np.where(mass.first >= 0, mass.last, mass.first)) + CLASSES
    wide: Sums = {}
    for name, array in (("offset_mass", mass.values), ("offset_pairs", pairs)):
        wide[name] = np.zeros((*array.shape[:2], 2 * CLASSES + 1))
        wide[name][..., place] = array
    return wide


def distances() -> list[tuple[int, int]]:
    """Return the least and the greatest distance of each class, ascending."""
    return [class_ends(number) for number in range(-CLASSES, CLASSES + 1)]


def of_received(received: Array, viewers: Array) -> Sums:
    """Sum up what the keys of whole texts received: ``(batch, num_heads, kv_len)`` twice."""
    mean = received / np.maximum(viewers, 1)
    first = np.zeros((*mean.shape[:2], FIRST_KEYS))
    first[..., : mean.shape[-1]] = mean[..., :FIRST_KEYS]
    there = np.zeros(first.shape, bool)
    there[..., : mean.shape[-1]] = viewers[..., :FIRST_KEYS] > 0
    most = np.sort(received, axis=-1)[..., -VERTICAL_KEYS:]
    return {
        "texts": np.full(mean.shape[1], mean.shape[0], np.int64),
        "received_texts": there.sum(axis=0),
        "first_received": first.sum(axis=0),
        "sink_texts": (first > SINK).sum(axis=0),
        "vertical_mass": most.sum(axis=(0, 2), dtype=np.float64),
    }


def statistics_of_rows(*, placed: bool) -> list[str]:
    """Return the row statistics that `of_rows` wants."""
    names = [*ROW_STATISTICS, *(("argmax", *LATER) if placed else ())]
    return [name for name in names if placed or not STATISTICS[name].positional]


def _count(which: Array) -> Array:
    return np.asarray(np.count_nonzero(which, axis=(0, 2)))


def _total(numbers: Any, which: Array) -> Array:
    return np.asarray(np.where(which, numbers, 0).sum(axis=(0, 2), dtype=np.float64))
