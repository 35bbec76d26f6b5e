"""Both passes together: what the kernels collect in the second one, and what becomes of it.

Queries are cut into bands. Each band has sums of its own, and these are added up in their order, so
that results have the same bits with any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from headwise import _binding
from headwise._arrays import Array, to_numpy
from headwise._copies import places_of_copies
from headwise._distances import ByDistance, class_ends, distance_class, on_common_axis
from headwise._errors import shape_text
from headwise._prepare import Prepared
from headwise._rectangles import KEPT
from headwise._second_pass import SecondPass
from headwise._shapes import FAR, broadcasts
from headwise._value_lengths import value_lengths
from headwise.attention import kernel_arguments, run
from headwise.statistics import AnyStatistic

_LEAST_BAND = 128  # queries; shorter ones would cost more than they share out
_BANDS = 16
_PARTIAL_BYTES = 1 << 29  # sums of all bands together


BOUND = "top_bound"  # a score that the largest keys of a row reach, from the first pass
_MOST_BOUNDED = 16


def bounded_by(chosen: Iterable[AnyStatistic]) -> int:
    """Return for how many of a row's largest keys the first pass should find a bound; 0 for none.

    With one, the second pass need not put in keys that have to leave again.
    """
    wanted = [s.options["k"] for s in chosen if isinstance(s, SecondPass) and s.name == "top_keys"]
    return wanted[0] if wanted and wanted[0] <= _MOST_BOUNDED else 0


class BlockMap(NamedTuple):
    """Mean and largest weight of each block, ``(..., num_heads, rows, columns)``, and its size.

    The mean is over the block's keys and those of its queries that see a key at all.
    """

    mean: Any
    max: Any
    block_queries: int
    block_keys: int


class TopKeys(NamedTuple):
    """The largest weights of each query, ``(..., num_heads, query_len, k)``, and their keys."""

    weights: Any
    keys: Any


class Collecting:
    """A call with a second pass: asks for what the chosen statistics need, and makes them."""

    def __init__(
        self, prepared: Prepared, output: Array, rows: dict[str, Array], chosen: list[SecondPass]
    ):
        self.prepared = prepared
        self.sizes = prepared.sizes
        self.output = output
        self.rows = rows
        self.chosen = chosen
        self.names = {statistic.name: statistic for statistic in chosen}
        self.items = int(np.prod(self.sizes.outer))
        self.raw: dict[str, Any] = {}
        self.counts: dict[str, Array] = {}
        self._stripes: dict[str, tuple[Array, ...]] = {}

    def run(self, first_keys: int, bounding: int) -> dict[str, Any]:
        """Write output and row statistics; return each of the second pass under its name.

        ``first_keys`` and ``bounding`` are as in `headwise.attention.run`.
        """
        self._ask()
        anything = self.items * self.sizes.heads * self.sizes.query_len * self.sizes.kv_len
        if anything and self.raw.keys() - {"band_queries"}:
            self._collect(first_keys, bounding)
        else:
            run(self.prepared, self.output, self.rows, first_keys, bounding)
        if anything:
            self._count_viewers()
        return {statistic.name: self._make(statistic) for statistic in self.chosen}

    # ---- what is asked for

    def _needs(self, *names: str) -> bool:
        return any(name in self.names for name in names)

    def _zeros(self, *shape: int, dtype: Any = None) -> Array:
        return np.zeros((self.items, *shape), dtype or self.prepared.working_dtype)

    def _ask(self) -> None:
        heads, queries, keys = self.sizes.heads, self.sizes.query_len, self.sizes.kv_len
        raw = self.raw
        if "block_map" in self.names:
            options = self.names["block_map"].options
            raw["block_queries"] = max(1, -(-queries // options["rows"]))
            raw["block_keys"] = max(1, -(-keys // options["columns"]))
            shape = (heads, -(-queries // raw["block_queries"]), -(-keys // raw["block_keys"]))
            raw["block_sums"], raw["block_maxima"] = self._zeros(*shape), self._zeros(*shape)
        raw["band_queries"] = self._band()
        bands = -(-queries // raw["band_queries"])
        if self._needs("received", "normalized_received", "value_weighted"):
            raw["received"] = self._zeros(heads, bands, keys)
        if "window_received" in self.names:
            first = max(0, queries - self.names["window_received"].options["w"])
            raw["recent"] = self._zeros(heads, bands, keys)
            raw["recent_from"] = np.full((self.items, heads), first, np.int64)
        if self._needs("offset_mass", "normalized_offset_mass", "pair_count"):
            length = raw["band_queries"] + keys - 1 + 2 * _binding.OFFSET_MARGIN
            raw["offsets"] = self._zeros(heads, bands, length)
        if self._needs("head_similarity", "head_products"):
            raw["products"] = self._zeros(bands, heads, heads, dtype=np.float64)
        if "top_keys" in self.names:
            k = raw["top"] = self.names["top_keys"].options["k"]
            raw["top_weights"] = self._zeros(heads, queries, k)
            raw["top_keys"] = self._zeros(heads, queries, k, dtype=np.int64) - 1
        self._stripes = {s.name: self._stripe(s) for s in self.chosen if "target_ids" in s.options}
        if self._stripes:
            raw["stripes"] = list(self._stripes.values())

    def _band(self) -> int:
        """Return how many queries are in a band: whole blocks of a map."""
        queries, keys = self.sizes.query_len, self.sizes.kv_len
        row = self.items * self.sizes.heads * (queries + 3 * keys) * 4
        bands = max(1, min(_BANDS, _PARTIAL_BYTES // max(1, row)))
        least, block = max(_LEAST_BAND, -(-queries // bands)), self.raw.get("block_queries", 1)
        return max(1, -(-least // int(block)) * int(block))

    def _stripe(self, statistic: SecondPass) -> tuple[Array, ...]:
        """Return, for each query, where the keys with its token are, and room for the weight."""
        target, source = (
            self._ids(statistic, name, length)
            for name, length in (
                ("target_ids", self.sizes.query_len),
                ("source_ids", self.sizes.kv_len),
            )
        )
        places = places_of_copies(target, source, statistic.options["shift"], self._positions())
        return *places, self._zeros(self.sizes.heads, self.sizes.query_len)

    def _ids(self, statistic: SecondPass, name: str, length: int) -> Array:
        ids = to_numpy(name, statistic.options[name])
        if ids.dtype.kind not in "iu":
            raise TypeError(f"{name} of {statistic.name} must be whole numbers, got {ids.dtype}")
        shape = (*self.sizes.outer, length)
        if not broadcasts(ids.shape, shape):
            raise ValueError(
                f"{name} of {statistic.name} must have shape (..., length) = {shape_text(shape)}, "
                f"got {shape_text(ids.shape)}"
            )
        return np.ascontiguousarray(np.broadcast_to(ids, shape)).reshape(self.items, length)

    def _offsets(self) -> Array:
        """Return where query 0 stands, for each item."""
        offset = self.prepared.query_offset
        return np.broadcast_to(np.reshape(0 if offset is None else offset, -1), self.items)

    def _positions(self) -> Array:
        return self._offsets()[:, None] + np.arange(self.sizes.query_len)

    # ---- the kernels

    def _how(self) -> tuple[Any, ...]:
        return *self.prepared.threads, _binding.instruction_set()

    def _collect(self, first_keys: int, bounding: int) -> None:
        arguments = kernel_arguments(self.prepared, self.output, self.rows)
        _binding.collect(*arguments, first_keys, bounding, self.raw, False, *self._how())
        if "window_received" not in self.names:
            return
        if self._mend_recent_from():
            self.raw["recent"][...] = 0
            again = {name: self.raw[name] for name in ("band_queries", "recent", "recent_from")}
            _binding.collect(*self._attended(), 1, 1, again, True, *self._how())

    def _mend_recent_from(self) -> bool:
        """Look again for the first of the last ``w`` queries that see a key.

        Before the call all were taken to see one. Tell whether any was missed for that.
        """
        w, assumed = self.names["window_received"].options["w"], self.raw["recent_from"]
        seen = ~np.isneginf(self._per_head(self.rows["lse"]))
        left = np.cumsum(seen[..., ::-1], axis=-1)[..., ::-1]  # how many see one from each query on
        first = np.ascontiguousarray(np.count_nonzero(left > w, axis=-1), np.int64)
        self.raw["recent_from"] = first
        queries = np.arange(seen.shape[-1])
        missed = (queries >= first[..., None]) & (queries < assumed[..., None])
        return bool(np.any(seen & missed))

    def _attended(self) -> list[Any]:
        """Return the kernels' arguments where output and rows are there already."""
        shape = np.broadcast_to(np.empty((), self.prepared.dtype), self.sizes.output)
        return kernel_arguments(self.prepared, shape, {name: self.rows[name] for name in KEPT})

    def _count_viewers(self) -> None:
        if self._needs(
            "normalized_received", "viewer_count", "normalized_offset_mass", "pair_count"
        ):
            heads, queries, keys = self.sizes.heads, self.sizes.query_len, self.sizes.kv_len
            viewers = self._zeros(heads, keys, dtype=np.int64)
            pairs = self._zeros(heads, queries + keys - 1, dtype=np.int64)
            _binding.count_viewers(*self._attended(), viewers, pairs, *self._how())
            self.counts = {"viewers": viewers, "pairs": pairs}

    # ---- what becomes of it

    def _make(self, statistic: SecondPass) -> Any:
        if "target_ids" in statistic.options:
            return self._shaped(self._stripes[statistic.name][3])
        return getattr(self, f"_{statistic.name}")(**statistic.options)

    def _per_head(self, array: Array) -> Array:
        return array.reshape(self.items, self.sizes.heads, *array.shape[-1:])

    def _shaped(self, array: Array) -> Array:
        """Bring ``(items, heads, ...)`` to the outer dimensions of the call."""
        return array.reshape(*self.sizes.rows[:-1], *array.shape[2:])

    def _working(self, array: Array) -> Array:
        return np.asarray(array, self.prepared.working_dtype)

    def _count(self, name: str, length: int) -> Array:
        if name in self.counts:
            return self.counts[name]
        return self._zeros(self.sizes.heads, length, dtype=np.int64)

    def _summed(self, name: str, begin: int = 0) -> Array:
        """Add up the bands, in their order."""
        bands = self.raw[name]
        total = np.zeros((*bands.shape[:2], *bands.shape[3:]))
        for band in range(begin, bands.shape[2]):
            total += bands[:, :, band]
        return total

    def _viewers(self) -> Array:
        return self._count("viewers", self.sizes.kv_len)

    @cached_property
    def _received_sums(self) -> Array:
        return self._summed("received")

    def _received(self) -> Array:
        return self._working(self._shaped(self._received_sums))

    def _normalized_received(self) -> Array:
        mean = self._received_sums / np.maximum(self._viewers(), 1)
        return self._working(self._shaped(mean))

    def _viewer_count(self) -> Array:
        return self._shaped(self._viewers())

    def _window_received(self, w: int) -> Array:  # noqa: ARG002 asked for above
        begin = int(self.raw["recent_from"].min(initial=0)) // self.raw["band_queries"]
        return self._working(self._shaped(self._summed("recent", begin)))

    def _value_weighted(self, projection: Any) -> Array:
        lengths = value_lengths(self.prepared, projection)
        return self._working(self._shaped(self._received_sums) * lengths)

    @cached_property
    def _mass(self) -> tuple[Array, Array]:
        """Return ``(items, heads, distances)`` of all distances, and the same of the pairs."""
        offsets, band = self.raw["offsets"], self.raw["band_queries"]
        queries, keys = self.sizes.query_len, self.sizes.kv_len
        distances = max(0, queries + keys - 1) if queries and keys else 0
        mass = self._zeros(self.sizes.heads, distances, dtype=np.float64)
        for n in range(offsets.shape[2] if distances else 0):
            length = min(band, queries - n * band) + keys - 1
            begin = _binding.OFFSET_MARGIN
            mass[..., n * band : n * band + length] += offsets[:, :, n, begin : begin + length]
        return mass, self._count("pairs", distances)

    def _by_distance(self, bins: str) -> tuple[Array, Array, Array, Array]:
        """Return mass and pairs in each class of distances, and the classes' ends."""
        mass, pairs = self._mass
        first = self._offsets() - (self.sizes.kv_len - 1)
        lowest, spread = int(first.min(initial=FAR)), int(np.ptp(first)) if first.size else 0
        if first.size == 0 or not mass.shape[-1]:
            lowest = 0
        elif spread:  # items stand at different places: on a common axis
            mass, pairs = (on_common_axis(x, first - lowest, spread) for x in (mass, pairs))
        distances = lowest + np.arange(mass.shape[-1])
        if bins == "all" or not len(distances):
            return mass, pairs, distances, distances
        classes = distance_class(distances)
        starts = np.flatnonzero(np.diff(classes, prepend=classes[0] - 1))
        ends = [class_ends(int(c)) for c in classes[starts]]
        summed = (np.add.reduceat(x, starts, axis=-1) for x in (mass, pairs))
        return (*summed, *(np.array(x) for x in zip(*ends, strict=True)))  # type: ignore[return-value]

    def _offset_mass(self, bins: str) -> ByDistance:
        mass, _, first, last = self._by_distance(bins)
        return ByDistance(self._working(self._shaped(mass)), first, last)

    def _normalized_offset_mass(self, bins: str) -> ByDistance:
        mass, pairs, first, last = self._by_distance(bins)
        mean = mass / np.maximum(pairs, 1)
        return ByDistance(self._working(self._shaped(mean)), first, last)

    def _pair_count(self, bins: str) -> ByDistance:
        _, pairs, first, last = self._by_distance(bins)
        return ByDistance(self._shaped(pairs), first, last)

    def _block_map(self, rows: int, columns: int) -> BlockMap:  # noqa: ARG002 asked for above
        queries, keys = self.raw["block_queries"], self.raw["block_keys"]
        seen = ~np.isneginf(self._per_head(self.rows["lse"]))
        sums, maxima = self.raw["block_sums"], self.raw["block_maxima"]
        if sums.size:
            in_row = np.add.reduceat(
                seen, np.arange(0, seen.shape[-1], queries), axis=-1, dtype=int
            )
            starts = np.arange(0, self.sizes.kv_len, keys)
            in_column = np.diff([*starts, self.sizes.kv_len])
            sums = sums / np.maximum(in_row[..., None] * in_column, 1)
        mean = self._working(self._shaped(sums))
        return BlockMap(mean, self._shaped(maxima), queries, keys)

    def _top_keys(self, k: int) -> TopKeys:  # noqa: ARG002 asked for above
        weights, keys = self.raw["top_weights"], self.raw["top_keys"]
        weights[np.isnan(self._per_head(self.rows["lse"]))] = np.nan
        return TopKeys(self._shaped(weights), self._shaped(keys))

    def _products(self) -> Array:
        upper = self.raw["products"].sum(axis=1)
        return np.asarray(np.triu(upper) + np.swapaxes(np.triu(upper, 1), -1, -2))

    def _pairs_of_heads(self, array: Array) -> Array:
        return array.reshape(*self.sizes.outer, *array.shape[-2:])

    def _head_products(self) -> Array:
        return self._pairs_of_heads(self._products())

    def _head_similarity(self) -> Array:
        products = self._products()
        lengths = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
        norm = lengths[..., :, None] * lengths[..., None, :]
        cosine = np.divide(products, norm, out=np.zeros_like(products), where=norm != 0)
        return self._working(self._pairs_of_heads(cosine))
