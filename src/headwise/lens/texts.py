"""Texts while a model reads them: one layer's share of a batch, from first to last query."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from headwise import statistics
from headwise._arrays import Array
from headwise.lens import sums
from headwise.lens.maps import MAP_SIZE, BlockSums, choose_windows
from headwise.lens.views import Layer, LayerView, TextView, Window
from headwise.observation import Observation

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


def wanted(queries: int, keys: int, *, placed: bool, tokens: Tokens | None) -> list[Any]:
    """Return the statistics that a layer's share of a text is made from.

    ``placed``: queries and keys are the same tokens, so that positions mean something.
    """
    chosen: list[Any] = [*sums.statistics_of_rows(placed=placed), "received", "viewer_count"]
    chosen += ["head_products", statistics.top_keys(TOP), statistics.block_map(MAP_SIZE, MAP_SIZE)]
    if placed:
        chosen += [statistics.offset_mass("log"), statistics.pair_count("log")]
    if placed and tokens is not None:
        target, _, source = tokens.of_queries(queries, keys)
        chosen += [
            statistics.stripe(target, source, shift=-1, name="induction"),
            statistics.stripe(target, source, name="same_token"),
        ]
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
    layer
        Its number or name.
    keep
        Of how many of the texts views are kept.
    """

    def __init__(self, layer: Layer, keep: int) -> None:
        self.layer = layer
        self.sums: sums.Sums = {}
        self.keep = keep
        self.kept: list[_Kept] = []
        self.queries = self.keys = 0
        self._distances: sums.Sums = {}  # of each text
        self._received: Array | None = None
        self._viewers: Array | None = None

    def add(self, seen: Observation, first_position: Array | None, tokens: Tokens | None) -> None:
        """Add an observation ``(batch, num_heads, query_len)`` of the queries that follow."""
        sums.add(self.sums, sums.of_rows(seen, first_position))
        sums.add(self.sums, {"products": seen.head_products.sum(axis=0)})
        if first_position is not None:
            sums.add(self._distances, sums.of_distances(seen.offset_mass, seen.pair_count.values))
        if "induction" in seen.statistics and tokens is not None:
            self._add_copies(seen, tokens)
        self._add_received(seen.received, seen.viewer_count)
        self._add_views(seen)
        self.queries += seen.lse.shape[-1]

    def _add_copies(self, seen: Observation, tokens: Tokens) -> None:
        _, repeated, _ = tokens.of_queries(seen.lse.shape[-1], self.keys)
        copies = np.maximum(seen.same_token - seen.self_weight, 0)
        stripes = {"induction": seen.induction, "duplicate_token": copies}
        sums.add(self.sums, sums.of_copies(stripes, repeated))

    def _add_received(self, received: Array, viewers: Array) -> None:
        self.keys = received.shape[-1]
        if self._received is None or self._viewers is None:
            self._received = np.asarray(received, np.float64)
            self._viewers = np.array(viewers)
            return
        more = [(0, 0), (0, 0), (0, max(0, self.keys - self._received.shape[-1]))]
        self._received, self._viewers = np.pad(self._received, more), np.pad(self._viewers, more)
        last = slice(self._received.shape[-1] - self.keys, None)  # a window's cache lets go of keys
        self._received[..., last] += received
        self._viewers[..., last] += viewers

    def _add_views(self, seen: Observation) -> None:
        begins = not self.kept
        for item in range(min(self.keep, seen.lse.shape[0])):
            if begins:
                self.kept.append(_Kept(BlockSums(seen, item)))
                self.kept[item].windows = choose_windows(seen, item, self.layer)
            else:
                self.kept[item].map.append(seen.weights()[item])
            self.kept[item].entropy.append(np.asarray(seen.entropy[item], np.float32))
            self.kept[item].top_weights.append(np.asarray(seen.top_keys.weights[item], np.float32))
            self.kept[item].top_keys.append(np.asarray(seen.top_keys.keys[item], np.int32))

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
            np.asarray(received, np.float32),
            np.concatenate(kept.entropy, axis=-1),
            np.asarray(curve, np.float32),
            np.concatenate(kept.top_weights, axis=-2),
            np.concatenate(kept.top_keys, axis=-2),
        )
        return view, kept.map.block, kept.windows


def text_views(
    layers: list[LayerTexts],
    item: int,
    name: str,
    tokens: list[str] | None,
    first_position: int = 0,
) -> list[TextView]:
    """Return a text as its layers saw it: one view for each shape of query and key.

    ``tokens`` are those of the keys; they are left out where their number is another.
    """
    shapes: dict[tuple[int, int], list[LayerTexts]] = {}
    for layer in layers:
        if item < len(layer.kept):
            shapes.setdefault((layer.queries, layer.keys), []).append(layer)
    return [
        _text_view(group, item, name, tokens, first_position) for group in shapes.values() if group
    ]


def _text_view(
    layers: list[LayerTexts], item: int, name: str, tokens: list[str] | None, first_position: int
) -> TextView:
    views = {layer.layer: layer.view(item) for layer in layers}
    curves = np.array([view.offset_mass for view, _, _ in views.values()])
    there = np.flatnonzero(~np.isnan(curves).all(axis=(0, 1)))
    within = slice(there[0], there[-1] + 1) if len(there) else slice(0, 0)
    trimmed = {
        layer: replace(view, offset_mass=np.nan_to_num(view.offset_mass[:, within]))
        for layer, (view, _, _) in views.items()
    }
    return TextView(
        name,
        tokens if tokens is not None and len(tokens) == layers[0].keys else None,
        layers[0].queries,
        layers[0].keys,
        first_position,
        next(iter(views.values()))[1],
        sums.distances()[within],
        trimmed,
        [window for _, _, windows in views.values() for window in windows],
    )
