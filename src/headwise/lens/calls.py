"""Attention calls cut to the tokens of their texts: padding is left out before anything is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise._arrays import Array, to_numpy
from headwise._cutting import cut
from headwise._mask_kinds import Dense, Mask
from headwise.observation import observe


@dataclass(frozen=True)
class Part:
    """The queries and keys of one batch item that are tokens; of all items where ``item`` is None.

    ``whole``: nothing was left out.
    """

    item: int | None
    queries: slice
    keys: slice
    whole: bool = False
    real_queries: Array | None = None  # which of the queries are tokens; None: all

    @property
    def empty(self) -> bool:
        """Whether there is nothing to look at."""
        return bool(self.queries.stop <= self.queries.start or self.keys.stop <= self.keys.start)


def parts_of(call: Any) -> list[Part]:
    """Return the parts of a call: one for all items where these are alike, else one for each."""
    batch, _, queries, keys = call.scores_shape
    real = [
        np.broadcast_to(np.ones((1, n), np.bool_) if given is None else given, (batch, n))
        for given, n in ((call.real_queries, queries), (call.real_keys, keys))
    ]
    hulls = [(_hull(q), _hull(k)) for q, k in zip(*real, strict=True)]
    alike = all(hull == hulls[0] for hull in hulls)
    full = all(row[_hull(row)].all() for rows in real for row in rows)
    if alike and full and hulls:
        whole = hulls[0] == (slice(0, queries), slice(0, keys))
        return [Part(None, *hulls[0], whole)]
    return [
        Part(item, q, k, real_queries=None if real[0][item, q].all() else real[0][item, q])
        for item, (q, k) in enumerate(hulls)
    ]


def _hull(real: Array) -> slice:
    places = np.flatnonzero(real)
    return slice(int(places[0]), int(places[-1]) + 1) if len(places) else slice(0, 0)


class Plain:
    """An observation whose results are NumPy arrays."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen
        self.statistics = seen.statistics

    def __getattr__(self, name: str) -> Any:
        return _plain(getattr(self._seen, name))

    def weights(self, **places: Any) -> Array:
        """Return exact weights, as `headwise.Observation.weights`."""
        return np.asarray(_plain(self._seen.weights(**places)))


def _plain(result: Any) -> Any:
    if isinstance(result, tuple):
        return type(result)(*(_plain(x) for x in result))
    return result.numpy() if hasattr(result, "numpy") else result


def observe_part(call: Any, part: Part, statistics: list[Any]) -> Any:
    """Observe a part of a call; `headwise.Observation` tells what comes back."""
    if part.whole:
        return observe(call.query, call.key, call.value, call.mask, statistics=statistics,
                       **call.options)  # fmt: skip
    options = dict(call.options)
    lengths = call.scores_shape[2:]
    mask = cut(call.mask, part.item, part.queries, part.keys, lengths)
    if part.real_queries is not None:
        mask = _and(mask, Dense(part.real_queries[:, None]))
    if call.query_offset is not None:
        options["query_offset"] = call.query_offset + part.queries.start - part.keys.start
    if call.bias is not None:
        options["bias"] = _cut_bias(to_numpy("bias", call.bias.detach()), part)
    query, key, value = (_of_item(x, part.item) for x in (call.query, call.key, call.value))
    return observe(
        query[:, :, part.queries],
        key[:, :, part.keys],
        value[:, :, part.keys],
        mask,
        statistics=statistics,
        **options,
    )


def _and(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one & other


def _of_item(x: Any, item: int | None) -> Any:
    return x if item is None or len(x) == 1 else x[item : item + 1]


def _cut_bias(bias: Array, part: Part) -> Array:
    if bias.ndim > 3:
        bias = _of_item(bias, part.item)
    rows: Any = part.queries if bias.ndim > 1 and bias.shape[-2] > 1 else slice(None)
    columns: Any = part.keys if bias.shape[-1] > 1 else slice(None)
    return bias[..., rows, columns] if bias.ndim > 1 else bias[columns]
