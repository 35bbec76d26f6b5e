"""Reports for tests of pages and pictures: real heads of the sample, and made-up long texts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import headwise
from headwise import lens
from headwise.lens.ranking import ranked
from headwise.lens.views import LayerView, Report, TextView, Window

TOP_KEYS = 8
WORDS = ("the", "of", "and", "a", "lamp", "boat", "keeper", "light", ",", ".", "it", "was", "quay")


def distance_classes(least: int, most: int) -> list[tuple[int, int]]:
    """Cut distances into classes: one for each up to 8, then eight for each doubling."""
    edges = [*range(9), *np.unique(np.round(8 * 2 ** np.arange(0.125, 22, 0.125)).astype(int))]
    edges = sorted({int(edge) for edge in edges})
    ahead = [(a, b - 1) for a, b in pairwise(edges) if a <= most]
    ahead = [(a, min(b, most)) for a, b in ahead]
    behind = [(-b, -a) for a, b in ahead if 0 < a <= -least]
    return [*reversed(behind), *ahead]


def view_of(weights: Any, block: tuple[int, int], distances: list[tuple[int, int]]) -> LayerView:
    """Return a layer's view, by the definitions, from all its weights ``(heads, n, m)``."""
    _, queries, keys = weights.shape
    gaps = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
    seen = weights.max(axis=0) > 0
    within = [(gaps >= least) & (gaps <= most) & seen for least, most in distances]
    order = np.argsort(-weights, axis=-1, kind="stable")[..., :TOP_KEYS]
    tops = np.take_along_axis(weights, order, axis=-1)
    logs = np.log(np.where(weights > 0, weights, 1))
    return LayerView(
        block_mean=blocks(weights, block, np.mean),
        block_max=blocks(weights, block, np.max),
        received=weights.sum(axis=1) / np.maximum(seen.sum(axis=0), 1),
        entropy=-(weights * logs).sum(axis=-1),
        normalized_offset_mass=np.stack(
            [weights[:, w].sum(axis=1) / max(w.sum(), 1) for w in within], axis=1
        ),
        top_weights=tops,
        top_keys=np.where(tops > 0, order, -1),
    )


def blocks(weights: Any, block: tuple[int, int], pool: Any) -> Any:
    """Pool blocks of queries and keys; those at the edges may be smaller."""
    _, queries, keys = weights.shape
    return np.stack(
        [
            np.stack(
                [
                    pool(weights[:, i : i + block[0], j : j + block[1]], axis=(1, 2))
                    for j in range(0, keys, block[1])
                ],
                axis=1,
            )
            for i in range(0, queries, block[0])
        ],
        axis=1,
    )


def sample_report(length: int | None = None, *, block: int = 1, texts: int = 1) -> Report:
    """Return the embedded sample's report, of its first tokens only where ``length`` says so."""
    recording = lens.load_sample()
    layers = {
        number: lens.Layer(*(a[:, :length] for a in (layer.query, layer.key, layer.value)))
        for number, layer in recording.layers.items()
    }
    tokens, ids = recording.tokens[:length], recording.token_ids[:length]
    cut = lens.Recording(layers, tokens, ids, causal=True, model=recording.model)
    found = lens.profile(cut)
    distances = distance_classes(0, cut.kv_len - 1)
    views, weights = {}, {}
    for number, layer in layers.items():
        seen = headwise.observe(
            layer.query[None], layer.key[None], layer.value[None], headwise.causal()
        )
        weights[number] = seen.weights()[0]
        views[number] = view_of(weights[number], (block, block), distances)
    windows = [] if block == 1 else sample_windows(weights)
    view = TextView(
        "The keeper of the lamp", tokens, cut.kv_len, cut.kv_len, 0, (block, block), distances,
        views, windows,
    )  # fmt: skip
    facts = [f"{cut.kv_len} tokens", f"{len(layers)} layers × 9 heads over 3 key/value heads"]
    return Report(
        recording.model, [*facts, "causal", "float32"], found.layers, found.numbers, [view] * texts
    )


def sample_windows(weights: dict[int, Any], size: int = 40) -> list[Window]:
    """Return two windows of each head, one on the diagonal and one beside it."""
    found = []
    for layer, all_heads in weights.items():
        for head, table in enumerate(all_heads):
            for first, away in ((40, 0), (100, 60)):
                key = first - away
                exact = table[first : first + size, key : key + size]
                found.append(Window(layer, head, first, key, exact))
    return found


def random_report(
    length: int, *, heads: int = 2, layers: int = 1, causal: bool = True, **changes: Any
) -> Report:
    """Return a small report of random exact weights; ``changes`` replace fields of its text."""
    rng = np.random.default_rng(length)
    distances = distance_classes(0 if causal else 1 - length, length - 1)
    views = {}
    for layer in range(layers):
        scores = rng.normal(scale=2, size=(heads, length, length))
        if causal:
            scores[:, np.triu(np.ones((length, length), bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        views[layer] = view_of(weights / weights.sum(axis=-1, keepdims=True), (1, 1), distances)
    numbers = {
        "entropy": np.stack([view.entropy.mean(axis=1) for view in views.values()]),
        "induction": rng.uniform(size=(layers, heads)),
    }
    fields: dict[str, Any] = {
        "name": f"{length} tokens", "tokens": [WORDS[i % len(WORDS)] for i in range(length)],
        "query_len": length, "kv_len": length, "first_position": 0, "block": (1, 1),
        "distances": distances, "layers": views, "windows": [],
    }  # fmt: skip
    text = TextView(**(fields | changes))
    return Report("Random weights", [f"{length} tokens"], list(range(layers)), numbers, [text])


class LongText:
    """A made-up text of any length whose heads have the habits of real ones, block by block."""

    def __init__(self, length: int, heads: int, cells: int = 192) -> None:
        self.length, self.heads = length, heads
        self.block = -(-length // cells)
        self.cells = -(-length // self.block)
        self.distances = distance_classes(0, length - 1)
        self.rng = np.random.default_rng(length + heads)
        self.tops = self._tops()

    def layer(self) -> LayerView:
        """Return one layer: each head a mixture of a sink, neighbours, copies and a broad rest."""
        rng, cells = self.rng, self.cells
        gap = np.arange(cells)[:, None] - np.arange(cells)
        share = rng.dirichlet((0.4, 0.4, 0.3, 0.4), size=self.heads)[:, :, None, None]
        reach, period = rng.uniform(0.2, 12, (self.heads, 1, 1)), rng.integers(5, 60, self.heads)
        sink = np.broadcast_to(np.arange(cells) == 0, gap.shape).astype(float)
        near = np.exp(-np.abs(gap) / reach)
        copies = (gap % period[:, None, None] == 0) * np.exp(-gap / 60)
        rest = np.exp(rng.normal(size=(self.heads, 1, cells))) * np.ones_like(near)
        mean = sum(
            share[:, k] * habit / np.maximum((habit * (gap >= 0)).sum(-1, keepdims=True), 1e-9)
            for k, habit in enumerate((sink[None], near, copies, rest))
        )
        mean = mean * np.exp(rng.normal(scale=0.35, size=near.shape)) * (gap >= 0)
        mean /= mean.sum(axis=-1, keepdims=True)
        most = np.minimum(mean * np.exp(rng.normal(3, 1, near.shape)) / self.block * 20, 1)
        return self._view(mean / self.block, most)

    def _view(self, mean: Any, most: Any) -> LayerView:
        rng, length = self.rng, self.length
        ahead = np.array([least for least, _ in self.distances])
        received = np.repeat(mean.mean(axis=1), self.block, axis=1)[:, :length]
        entropy = np.log(np.arange(length) + 1) * rng.uniform(0.2, 0.9, (self.heads, 1))
        return LayerView(
            mean, most,
            received * rng.exponential(size=received.shape),
            entropy * np.exp(rng.normal(scale=0.2, size=entropy.shape)),
            np.exp(rng.normal(scale=0.3, size=(self.heads, len(ahead)))) / (2 + 2 * ahead),
            *self.tops,
        )  # fmt: skip

    def _tops(self) -> tuple[Any, Any]:
        shape = (self.heads, self.length, TOP_KEYS)
        weights = np.sort(self.rng.dirichlet(np.full(TOP_KEYS, 0.5), size=shape[:2]), axis=-1)
        keys = self.rng.integers(0, np.arange(self.length)[:, None] + 1, size=shape)
        return weights[..., ::-1].astype(np.float32), keys.astype(np.int32)

    def windows(self, heads: list[tuple[int, int]], size: int = 64) -> list[Window]:
        """Return windows of exact weights beside the diagonal, two for each (layer, head)."""
        rng, found = self.rng, []
        for layer, head in heads:
            for first in rng.integers(size, max(self.length - size, size + 1), 2).tolist():
                table = rng.dirichlet(np.full(size, 0.05), size=size)
                found.append(Window(layer, head, first, first - size, table))
        return found


def long_report(length: int, *, layers: int = 30, heads: int = 10, windows: int = 60) -> Report:
    """Return a report of ``layers · heads`` heads over one long text, with its tokens."""
    made, rng = LongText(length, heads), np.random.default_rng(3)
    views = {layer: made.layer() for layer in range(layers)}
    tokens = [f" {WORDS[k % len(WORDS)]}{k % 97 or ''}" for k in rng.integers(0, 5000, length)]
    numbers = {
        name: rng.beta(0.4, 3, size=(layers, heads)) * (8 if name == "entropy" else 1)
        for name in lens.MEASURES
    }
    numbers["induction"][0, :3] = np.nan
    strongest = [(row, head) for row, head, _ in ranked(numbers["induction"], windows // 2)]
    text = TextView(
        "harbour-log.txt", tokens, length, length, 0, (made.block, made.block), made.distances,
        views, made.windows(strongest),
    )  # fmt: skip
    facts = [f"{length:,} tokens", f"{layers} layers × {heads} heads", "causal", "bfloat16"]
    return Report("Harbour-1.5B", facts, list(views), numbers, [text])
