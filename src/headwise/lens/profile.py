"""The numbers of every head of a recording, and small maps of their weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.measures import KINDS, MEASURES, ROW_STATISTICS, Copies, Measure, row_measures
from headwise.lens.recording import Layer, Recording, RecordingError
from headwise.masks import causal
from headwise.observation import Observation, observe
from headwise.reference import resolve_offset
from headwise.statistics import STATISTICS

MAP_SIZE = 192  # longer texts are pooled to maps of at most this many rows and columns
_TILE_BYTES = 32 << 20  # exact weights held at a time

_POLARITY = "in headwise True means may attend; where True means masked, pass ~mask"


@dataclass(frozen=True)
class HeadMap:
    """One layer's weights for pictures, every head for itself.

    Attributes
    ----------
    weights
        ``(num_heads, rows, columns)``: exact where ``block`` is 1, else means over blocks of
        ``block`` queries and keys.
    received
        ``(num_heads, kv_len)``: mean weight that a key gets from the queries that see it.
    entropy
        ``(num_heads, query_len)``, in nats.
    block
        Queries and keys in one cell.
    """

    weights: Array
    received: Array
    entropy: Array
    block: int


@dataclass
class Profile:
    """What `profile` found: ``numbers[measure]`` is ``(num_layers, num_heads)``."""

    recording: Recording
    numbers: dict[str, Array]
    maps: dict[int, HeadMap]
    empty_rows: int
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def layers(self) -> list[int]:
        """Layer numbers, in the order of the tables' rows."""
        return list(self.recording.layers)

    def ranked(self, measure: Measure, count: int) -> list[tuple[int, int, float]]:
        """Return the heads with most of a measure, as (row of the tables, head, number)."""
        table = self.numbers[measure.name]
        order = np.argsort(-table, axis=None, kind="stable")[:count]
        rows, heads = np.unravel_index(order, table.shape)
        return [
            (int(row), int(head), float(table[row, head]))
            for row, head in zip(rows, heads, strict=True)
        ]

    def strongest(self, measure: Measure, count: int = 3) -> list[tuple[str, float]]:
        """Return the heads with most of a measure, as ``("layer.head", number)``, largest first."""
        return [
            (f"{self.layers[row]}.{head}", number)
            for row, head, number in self.ranked(measure, count)
        ]

    def top(self, name: str) -> float:
        """Return the top of a measure's colour scale: 1 for shares, else the largest number."""
        bounded = MEASURES[name].unit in {"weight", "share"}
        return 1.0 if bounded else float(self.numbers[name].max()) or 1.0

    def kinds(self) -> list[Measure]:
        """Return the kinds of head that this recording can show."""
        return [measure for measure in KINDS if measure.name in self.numbers]


def profile(
    recording: Recording,
    *,
    query_offset: Any = None,
    scale: float | None = None,
    num_threads: int | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Profile:
    """Compute the numbers and maps of every head.

    Parameters
    ----------
    recording
        From `load` or `load_sample`.
    query_offset, scale, num_threads
        As in `headwise.observe`.
    progress
        Called now and then with the share of the work that is done, 0 to 1, and a few words.

    Raises
    ------
    RecordingError
        Where the mask or the lengths do not fit.

    Examples
    --------
    >>> from headwise import lens
    >>> found = lens.profile(lens.load_sample())
    >>> found.strongest(lens.MEASURES["previous_token"], 1)[0][0]
    '16.0'
    """
    attention = _Attention(recording, query_offset, scale, num_threads)
    copies = _copies(recording)
    rows: list[dict[str, Array]] = []
    maps: dict[int, HeadMap] = {}
    empty, seconds = 0, {"attention": 0.0, "weights": 0.0}
    for done, (number, layer) in enumerate(recording.layers.items()):

        def report(share: float, done: int = done, number: int = number) -> None:
            if progress:
                progress((done + share) / len(recording.layers), f"layer {number}")

        report(0.0)
        started = time.perf_counter()
        seen = attention.observe(layer)
        observed = time.perf_counter()
        second_pass = SecondPass(seen, attention.visible, copies)
        second_pass.run(report)
        seconds["attention"] += observed - started
        seconds["weights"] += time.perf_counter() - observed
        maps[number] = second_pass.head_map()
        empty += int(seen.empty_rows.sum())
        rows.append(row_measures(seen, attention.first_position) | second_pass.measures())
    table = {name: np.stack([row[name] for row in rows]) for name in MEASURES if name in rows[0]}
    return Profile(recording, table, maps, empty, seconds)


def _copies(recording: Recording) -> Copies | None:
    """Return where tokens repeat, where queries and keys are the same tokens and some do."""
    if recording.token_ids is None or recording.query_len != recording.kv_len:
        return None
    copies = Copies(recording.token_ids)
    return copies if copies.repeated.any() else None


@dataclass(frozen=True)
class _Attention:
    """How the layers of a recording attend."""

    recording: Recording
    query_offset: Any
    scale: float | None
    num_threads: int | None

    def observe(self, layer: Layer) -> Observation:
        """Observe one layer, or say why that cannot be done."""
        recording = self.recording
        mask: Any = recording.mask
        if recording.causal:
            mask = causal() if mask is None else causal() & mask
        try:
            seen = observe(
                layer.query[None],
                layer.key[None],
                layer.value[None],
                mask,
                statistics=self._statistics(),
                query_offset=self.query_offset,
                scale=self.scale,
                num_threads=self.num_threads,
            )
        except (TypeError, ValueError) as error:
            raise RecordingError(str(error)) from None
        if np.isneginf(seen.lse).all():
            raise RecordingError(f"the mask blocks every key for every query: {_POLARITY}")
        return seen

    def _statistics(self) -> list[str]:
        known = self.query_offset is not None or self.recording.query_len == self.recording.kv_len
        return [s for s in ROW_STATISTICS if known or not STATISTICS[s].positional]

    @property
    def first_position(self) -> int:
        """Where the first query stands on the keys' axis."""
        r = self.recording
        return int(resolve_offset(self.query_offset, None, r.query_len, r.kv_len))

    def visible(self, rows: slice) -> Array:
        """Return which keys the queries of a block see, ``(rows, kv_len)``, in any head."""
        recording = self.recording
        keys = np.arange(recording.kv_len)
        shown = np.ones((rows.stop - rows.start, recording.kv_len), dtype=bool)
        if recording.causal:
            shown &= keys <= np.arange(rows.start, rows.stop)[:, None] + self.first_position
        if recording.mask is not None:
            mask = np.atleast_2d(recording.mask)
            mask = mask if mask.shape[-2] == 1 else mask[..., rows, :]
            allowed = ~np.isneginf(mask) if mask.dtype.kind == "f" else mask != 0
            shown &= allowed.any(axis=tuple(range(allowed.ndim - 2)))
        return shown


class SecondPass:
    """Walks the exact weights of a layer once, block of queries by block, keeping sums of them."""

    def __init__(
        self, seen: Observation, visible: Callable[[slice], Array], copies: Copies | None
    ) -> None:
        heads, queries = seen.lse.shape[1:]
        keys = visible(slice(0, 0)).shape[1]
        self._seen, self._visible, self._copies = seen, visible, copies
        self._block = block = -(-max(queries, keys) // MAP_SIZE)
        self._pooled = np.zeros((heads, -(-queries // block), -(-keys // block)))
        self._received, self._viewers = np.zeros((heads, keys)), np.zeros(keys)
        self._stripes = {
            name: np.zeros((heads, queries)) for name in ("induction", "duplicate_token")
        }

    def run(self, report: Callable[[float], None]) -> None:
        """Walk all blocks, reporting the share that is done."""
        heads, queries = self._seen.lse.shape[1:]
        row_bytes = heads * len(self._viewers) * self._seen.lse.itemsize
        for rows in _row_blocks(queries, row_bytes, self._block):
            self._add(rows, self._seen.weights(queries=rows)[0])
            report(rows.stop / queries)

    def _add(self, rows: slice, weights: Array) -> None:
        self._received += weights.sum(axis=1, dtype=np.float64)
        self._viewers += self._visible(rows).sum(axis=0)
        cells = slice(rows.start // self._block, -(-rows.stop // self._block))
        self._pooled[:, cells] = block_means(block_means(weights, self._block, 1), self._block)
        if self._copies:
            self._stripes["induction"][:, rows] = _stripe(weights, self._copies.successors(rows))
            self._stripes["duplicate_token"][:, rows] = _stripe(
                weights, self._copies.duplicates(rows)
            )

    def measures(self) -> dict[str, Array]:
        """Return the copying measures, each ``(num_heads,)``; none where no token repeats."""
        if not self._copies:
            return {}
        repeated = self._copies.repeated
        return {name: stripe[:, repeated].mean(axis=1) for name, stripe in self._stripes.items()}

    def head_map(self) -> HeadMap:
        """Return the pooled weights and margins."""
        received = self._received / np.maximum(self._viewers, 1)
        return HeadMap(self._pooled, received, self._seen.entropy[0], self._block)


def _row_blocks(queries: int, row_bytes: int, block: int) -> Iterator[slice]:
    """Cut the queries into runs of whole blocks whose weights fit the budget."""
    step = max(1, _TILE_BYTES // max(1, row_bytes) // block) * block
    for start in range(0, queries, step):
        yield slice(start, min(start + step, queries))


def block_means(array: Array, block: int, axis: int = -1) -> Array:
    """Return means over blocks along an axis; the last one may be smaller."""
    starts = np.arange(0, array.shape[axis], block)
    sizes = np.diff([*starts, array.shape[axis]])
    sums = np.moveaxis(np.add.reduceat(array, starts, axis=axis), axis, -1)
    return np.moveaxis(sums / sizes, -1, axis)


def _stripe(weights: Array, where: Array) -> Array:
    """Add up the weights of each row at the marked keys."""
    return np.asarray(np.einsum("hij,ij->hi", weights, where.astype(weights.dtype)))
