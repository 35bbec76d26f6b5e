"""What the oracle knows of a call: the definitions of all statistics, in plain NumPy.

`headwise.reference` makes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # NumPy arrays; their operators are untyped
INFINITY = np.inf


@dataclass(frozen=True)
class Reference:
    """Everything there is to know about one attention call, in full.

    Shapes: ``scores``, ``weights`` and ``visible`` are ``(..., num_heads, query_len, kv_len)``;
    ``lse`` and every row statistic ``(..., num_heads, query_len)``; ``output`` has ``value_dim`` at
    the end; ``distances`` broadcasts to the scores.
    """

    scores: Array  # before the softmax; -inf where a key is not visible
    visible: Array
    distances: Array  # position of the query less position of the key
    weights: Array
    lse: Array  # with the sink
    output: Array
    sinks: Array  # score of each head's sink, (num_heads, 1); -inf for none
    sink_weight: Array  # what a learned sink takes; 0 without one, and in a row that sees no key
    value: Array  # a head for each query head

    @property
    def max_score(self) -> Array:
        """The largest score of each row; -inf in a row that sees no key, NaN in a row of NaN."""
        return np.where(np.isnan(self.lse), np.nan, self.scores.max(axis=-1, initial=-INFINITY))

    @property
    def entropy(self) -> Array:
        """``-Σ p log p`` in nats: 0 with all weight on one key, log n where n share it evenly.

        A sink is one more outcome.
        """
        p = np.concatenate([self.weights, self.sink_weight[..., None]], axis=-1)
        return 0.0 - (p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)

    @property
    def normalized_entropy(self) -> Array:
        """Entropy as a share of an even spread's, ``log n``; 0 with fewer than two outcomes.

        n counts the visible keys, and the sink where there is one.
        """
        outcomes = self.visible_count + (self.sinks > -INFINITY)
        return ratio(self.entropy, np.log(np.maximum(outcomes, 1)))

    @property
    def max_weight(self) -> Array:
        """The largest weight of each row."""
        return self.weights.max(axis=-1, initial=0)

    @property
    def argmax(self) -> Array:
        """The first key with the largest weight; -1 in a row that sees no key or is NaN."""
        if not self.weights.shape[-1]:
            return np.full(self.lse.shape, -1)
        return np.where(np.isfinite(self.lse), self.scores.argmax(axis=-1), -1)

    @property
    def distance(self) -> Array:
        """How far away the attended keys are, on average."""
        return (self.weights * abs(self.distances)).sum(axis=-1)

    @property
    def normalized_distance(self) -> Array:
        """Distance as a multiple of an even spread's."""
        mean = self.visible_distance / np.maximum(self.visible_count, 1)
        return ratio(self.distance, mean)

    @property
    def self_weight(self) -> Array:
        """Weight on the query's own position."""
        return self._weight_at(0)

    @property
    def previous_weight(self) -> Array:
        """Weight on the position just before the query's."""
        return self._weight_at(1)

    @property
    def next_weight(self) -> Array:
        """Weight on the position just after the query's."""
        return self._weight_at(-1)

    @property
    def first_weight(self) -> Array:
        """Weight on the first key."""
        return self.first_weights(1)

    @property
    def output_norm(self) -> Array:
        """Length of each output row."""
        return np.sqrt((self.output**2).sum(axis=-1))

    @property
    def visible_count(self) -> Array:
        """How many keys each query may attend to."""
        return self.visible.sum(axis=-1)

    @property
    def visible_distance(self) -> Array:
        """Sum of the distances of the keys that a query may attend to."""
        return (self.visible * abs(self.distances)).sum(axis=-1)

    def first_weights(self, k: int) -> Array:
        """Weight on the first ``k`` keys."""
        return self.weights[..., :k].sum(axis=-1)

    def _weight_at(self, distance: int) -> Array:
        return (self.weights * (self.distances == distance)).sum(axis=-1)

    # ---- what needs all weights at once

    @property
    def seen(self) -> Array:
        """The weights, and 0 where a key is not visible, in a row of NaN too."""
        return np.where(self.visible, self.weights, 0)

    @property
    def rows(self) -> Array:
        """Which queries see a key at all."""
        return self.visible.any(axis=-1)

    @property
    def received(self) -> Array:
        """All weight that a key gets: ``(..., num_heads, kv_len)``."""
        return self.seen.sum(axis=-2)

    @property
    def viewer_count(self) -> Array:
        """How many queries see a key."""
        return self.visible.sum(axis=-2)

    @property
    def normalized_received(self) -> Array:
        """Mean weight that a key gets from the queries that see it."""
        return self.received / np.maximum(self.viewer_count, 1)

    @property
    def head_similarity(self) -> Array:
        """Cosine between the weights of each two heads: ``(..., num_heads, num_heads)``."""
        flat = self.seen.reshape(*self.seen.shape[:-2], -1)
        flat = flat if flat.ndim > 1 else flat[None]
        products = flat @ np.swapaxes(flat, -1, -2)
        lengths = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
        return ratio(products, lengths[..., :, None] * lengths[..., None, :])

    def window_received(self, w: int = 32) -> Array:
        """Weight that a key gets from the last ``w`` queries that see a key."""
        left = np.cumsum(self.rows[..., ::-1], axis=-1)[..., ::-1]
        last = self.rows & (left <= w)
        return np.where(last[..., None], self.seen, 0).sum(axis=-2)

    def offset_mass(self) -> tuple[Array, Array, Array]:
        """All weight at each distance, how many pairs are visible there, and the distances.

        ``(..., num_heads, distances)`` twice, and ``(distances,)``.
        """
        apart = np.broadcast_to(self.distances, self.seen.shape)
        ends = (apart.min(), apart.max() + 1) if apart.size else (0, 0)
        distances = np.arange(*ends)
        pairs = apart.shape[-2] * apart.shape[-1]
        shape = (*apart.shape[:-2], len(distances))

        def total(numbers: Array) -> Array:
            each = zip(apart.reshape(-1, pairs), numbers.reshape(-1, pairs), strict=True)
            sums = [np.bincount(d - distances[0], x, len(distances)) for d, x in each]
            return np.reshape(sums, shape)

        return total(self.seen), total(self.visible).astype(int), distances

    def block_map(self, rows: int = 128, columns: int = 128) -> tuple[Array, Array]:
        """Mean and largest weight of blocks, of which there are at most ``rows`` × ``columns``.

        The mean is over the keys of a block and those of its queries that see a key.
        """
        queries, keys = self.seen.shape[-2:]
        tall, wide = max(1, -(-queries // rows)), max(1, -(-keys // columns))
        mean, largest = (np.zeros((*self.seen.shape[:-2], -(-queries // tall), -(-keys // wide)))
                         for _ in range(2))  # fmt: skip
        for i, j in np.ndindex(*mean.shape[-2:]):
            block = self.seen[..., i * tall : (i + 1) * tall, j * wide : (j + 1) * wide]
            count = self.rows[..., i * tall : (i + 1) * tall].sum(axis=-1) * block.shape[-1]
            mean[..., i, j] = block.sum(axis=(-2, -1)) / np.maximum(count, 1)
            largest[..., i, j] = block.max(axis=(-2, -1))
        return mean, largest

    def top_keys(self, k: int = 4) -> tuple[Array, Array]:
        """Return the ``k`` largest weights of each query and their keys; ties to the lower key."""
        order = np.argsort(-self.seen, axis=-1, kind="stable")[..., :k]
        weights = np.take_along_axis(self.seen, order, -1)
        keys = np.where(weights > 0, order, -1)
        missing = [(0, 0)] * (keys.ndim - 1) + [(0, k - keys.shape[-1])]
        return np.pad(weights, missing), np.pad(keys, missing, constant_values=-1)

    def value_weighted(self, projection: Array = None) -> Array:
        """Received weight times the length of the value, projected where that is given."""
        arrived = self.value if projection is None else self.value @ projection
        return self.received * np.sqrt((arrived**2).sum(axis=-1))

    def stripe(self, target_ids: Array, source_ids: Array, shift: int = 0) -> Array:
        """Weight of each query on the keys j up to its own with source[j + shift] = target[i]."""
        keys = np.arange(self.seen.shape[-1])
        there = (keys + shift >= 0) & (keys + shift < len(keys))
        source = np.asarray(source_ids)[..., np.where(there, keys + shift, 0)]
        same = (np.asarray(target_ids)[..., :, None] == source[..., None, :]) & there
        if same.ndim > 2:
            same = same[..., None, :, :]  # one for all heads
        return np.where(same & (self.distances >= 0), self.seen, 0).sum(axis=-1)


def ratio(number: Array, norm: Array) -> Array:
    """Divide; 0 where the norm is 0."""
    return np.where(norm > 0, number / np.where(norm > 0, norm, 1), 0 * number)
