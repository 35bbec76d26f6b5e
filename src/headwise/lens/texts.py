"""Texts while a model reads them: one layer's share of a batch, from first to last query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headwise import statistics
from headwise._arrays import Array
from headwise.lens import sums
from headwise.lens.keeping import apart
from headwise.lens.maps import MAP_SIZE, BlockSums, choose_windows
from headwise.lens.views import Layer, LayerView, TextView, Window

TOP = 4  # largest weights of each query that are kept


class Tokens:
    """The tokens of a batch of texts, ``(batch, length)``: equal numbers where they are equal."""

    def __init__(self, ids: Array) -> None:
        self.ids = np.asarray(ids)
        self.repeated = np.ones(self.ids.shape, dtype=bool)
        for row, found in zip(self.ids, self.repeated, strict=True):
            found[np.unique(row, return_index=True)[1]] = False

    def of_queries(self, queries: int, keys: int) -> tuple[Array, Array, Array]:
        """Return the last queries' numbers and whether they came before, and the keys' numbers."""
        end = self.ids.shape[1]
        return (
            self.ids[:, end - queries :],
            self.repeated[:, end - queries :],
            self.ids[:, end - keys :],
        )


@dataclass(frozen=True)
class Place:
    """Where the queries and keys of an attention call stand in their texts.

    Attributes
    ----------
    queries, keys
        How many there are.
    first_position
        Where the first query stands in its text; None where queries and keys are of different
        sequences, as in cross-attention.
    dropped
        How many tokens stand before the first key: a window's cache lets go of them.
    tokens
        The tokens up to the last query, where they are known.
    induction_distance
        The distance at which induction heads look, where a text was made for that.
    """

    queries: int
    keys: int
    first_position: int | None = None
    dropped: int = 0
    tokens: Tokens | None = None
    induction_distance: int | None = None


def wanted(place: Place) -> list[Any]:
    """Return the statistics that a layer's share of a text is made from."""
    placed = place.first_position is not None
    chosen: list[Any] = [*sums.statistics_of_rows(placed=placed), "received", "viewer_count"]
    chosen += ["head_products", statistics.top_keys(TOP), statistics.block_map(MAP_SIZE, MAP_SIZE)]
    if placed:
        chosen += [statistics.offset_mass("log"), statistics.pair_count("log")]
    if placed and place.tokens is not None:
        target, _, source = place.tokens.of_queries(place.queries, place.keys)
        chosen += [
            statistics.stripe(target, source, shift=-1, name="induction"),
            statistics.stripe(target, source, name="same_token"),
        ]
    if place.first_position is not None and place.induction_distance is not None:
        positions = place.first_position - place.dropped + np.arange(place.queries)
        behind = np.arange(place.keys) + place.induction_distance
        chosen.append(statistics.stripe(positions, behind, name="diagonal"))
    return chosen


@dataclass
class _Kept:
    """What pages need of one text."""

    map: BlockSums
    entropy: list[Array] = field(default_factory=list)
    top_weights: list[Array] = field(default_factory=list)
    top_keys: list[Array] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)


class LayerTexts:
    """One layer of a batch of texts. `add` takes what was observed, `close` gives the sums.

    Parameters
    ----------
    keep
        Of how many of the texts views are kept.
    """

    def __init__(self, keep: int) -> None:
        self.sums: sums.Sums = {}
        self.keep = keep
        self.kept: list[_Kept] = []
        self.queries = self.keys = 0
        self.begin = 0  # where the first query stands
        self.tokens: Tokens | None = None
        self._distances: sums.Sums = {}  # of each text
        self._received: Array | None = None
        self._viewers: Array | None = None

    def add(self, seen: Any, place: Place) -> None:
        """Add an observation ``(batch, num_heads, query_len)`` of the queries that follow.

        It must hold the statistics that `wanted` names, as NumPy arrays.
        """
        if self.queries == 0:
            self.begin = place.first_position or 0
        sums.add(self.sums, sums.of_rows(seen, place.first_position, place.dropped))
        sums.add(self.sums, {"products": seen.head_products.sum(axis=0)})
        if place.first_position is not None:
            sums.add(self._distances, sums.of_distances(seen.offset_mass, seen.pair_count.values))
        if "induction" in seen.statistics and place.tokens is not None:
            self._add_copies(seen, place.tokens)
        if "diagonal" in seen.statistics:
            distance = place.induction_distance or 0
            more = sums.of_diagonal(seen.diagonal, place.first_position or 0, distance)
            sums.add(self.sums, more)
        self._add_received(seen.received, seen.viewer_count, place.dropped)
        self._add_views(seen, place.dropped)
        self.queries += place.queries
        self.tokens = place.tokens

    def _add_copies(self, seen: Any, tokens: Tokens) -> None:
        _, repeated, _ = tokens.of_queries(seen.lse.shape[-1], 0)
        copies = np.maximum(seen.same_token - seen.self_weight, 0)
        stripes = {"induction": seen.induction, "duplicate_token": copies}
        sums.add(self.sums, sums.of_copies(stripes, repeated))

    def _add_received(self, received: Array, viewers: Array, dropped: int) -> None:
        if self._received is None or self._viewers is None:
            self._received = np.zeros((*received.shape[:2], 0))
            self._viewers = np.zeros((*received.shape[:2], 0), np.int64)
        end = dropped + received.shape[-1]
        self.keys = max(self.keys, end)
        more = [(0, 0), (0, 0), (0, self.keys - self._received.shape[-1])]
        self._received = apart(np.pad(self._received, more))
        self._viewers = apart(np.pad(self._viewers, more))
        self._received[..., dropped:end] += received
        self._viewers[..., dropped:end] += viewers

    def _add_views(self, seen: Any, dropped: int) -> None:
        begins = not self.kept
        for item in range(min(self.keep, seen.lse.shape[0])):
            if begins:
                self.kept.append(_Kept(BlockSums(seen, item), windows=choose_windows(seen, item)))
            else:
                weights = np.pad(seen.weights()[item], [(0, 0), (0, 0), (dropped, 0)])
                self.kept[item].map.append(weights)
            kept, keys = self.kept[item], seen.top_keys.keys[item]
            kept.entropy.append(apart(seen.entropy[item], np.float32))
            kept.top_weights.append(apart(seen.top_keys.weights[item], np.float32))
            kept.top_keys.append(apart(np.where(keys < 0, -1, keys + dropped), np.int32))

    def close(self) -> sums.Sums:
        """Return the sums of all texts, now that they are whole."""
        if self._received is not None and self._viewers is not None:
            sums.add(self.sums, sums.of_received(self._received, self._viewers))
        sums.add(self.sums, {name: x.sum(axis=0) for name, x in self._distances.items()})
        return self.sums

    def view(self, item: int) -> tuple[LayerView, tuple[int, int], list[Window]]:
        """Return what is kept of one text, the size of its map's blocks, and exact rectangles."""
        if self._received is None or self._viewers is None:
            raise ValueError("nothing was added")
        kept = self.kept[item]
        received = self._received[item] / np.maximum(self._viewers[item], 1)
        curve = np.full((received.shape[0], len(sums.distances())), np.nan)
        if self._distances:
            mass, pairs = (self._distances[f"offset_{name}"][item] for name in ("mass", "pairs"))
            np.divide(mass, pairs, out=curve, where=pairs > 0)
        view = LayerView(
            kept.map.mean(),
            kept.map.largest(),
            apart(received, np.float32),
            _joined(kept.entropy, -1),
            np.asarray(curve, np.float32),
            _joined(kept.top_weights, -2),
            _joined(kept.top_keys, -2),
        )
        return view, kept.map.block, kept.windows


def _joined(arrays: list[Array], axis: int) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)


def text_view(
    layers: Mapping[Layer, LayerTexts], item: int, name: str, tokens: list[str] | None
) -> TextView:
    """Return a text as some layers saw it, all with the same queries and keys.

    ``tokens`` are those of the keys; they are left out where their number is another.
    """
    views = {layer: texts.view(item) for layer, texts in layers.items()}
    any_of_them = next(iter(layers.values()))
    curves = np.array([view.normalized_offset_mass for view, _, _ in views.values()])
    there = np.flatnonzero(~np.isnan(curves).all(axis=(0, 1)))
    within = slice(there[0], there[-1] + 1) if len(there) else slice(0, 0)
    return TextView(
        name,
        tokens if tokens is not None and len(tokens) == any_of_them.keys else None,
        any_of_them.queries,
        any_of_them.keys,
        any_of_them.begin,
        next(iter(views.values()))[1],
        sums.distances()[within],
        {
            layer: replace(
                view, normalized_offset_mass=np.nan_to_num(view.normalized_offset_mass[:, within])
            )
            for layer, (view, _, _) in views.items()
        },
        [replace(w, layer=layer) for layer, (_, _, found) in views.items() for w in found],
    )
