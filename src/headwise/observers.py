"""Observers of your own: what you want to know of the exact weights, written in NumPy.

An observer has four verbs. `Observation.run` calls ``init`` once, ``update`` for each tile of
weights, and returns what ``finalize`` gives; ``merge`` adds another observer's numbers, of another
text or another machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

from headwise._shapes import Sizes


class Tile(NamedTuple):
    """Exact weights of some queries on all keys.

    Attributes
    ----------
    weights
        ``(..., num_heads, queries, kv_len)``: rows add to 1 (less a sink's share); 0 where a key is
        not visible.
    queries, keys
        ``(queries,)`` and ``(kv_len,)``: which ones they are, counted from 0.
    positions
        ``(..., queries)``: where the queries stand on the keys' axis; None where that is not known.
    """

    weights: Any
    queries: Any
    keys: Any
    positions: Any


def check_observer(observer: Any) -> None:
    """Refuse what `headwise.Observation.run` could not call."""
    verbs = ("init", "update", "finalize")
    missing = [verb for verb in verbs if not callable(getattr(observer, verb, None))]
    expected = f"observer must be an object with the methods {', '.join(verbs)}"
    if isinstance(observer, type):
        raise TypeError(f"{expected}, got the class {observer.__name__}: call it")
    if missing:
        name = type(observer).__name__
        raise TypeError(f"{expected}, got {name}, which has no {' and no '.join(missing)}")


class Observer(Protocol):
    """What `headwise.Observation.run` calls.

    Examples
    --------
    How much weight falls on every other key:

    >>> import numpy as np, headwise
    >>> class EvenKeys:
    ...     def init(self, sizes):
    ...         self.weight, self.queries = np.zeros(sizes.heads), 0
    ...
    ...     def update(self, tile):
    ...         self.weight += tile.weights[..., tile.keys % 2 == 0].sum(axis=(0, -2, -1))
    ...         self.queries += len(tile.queries)
    ...
    ...     def merge(self, other):
    ...         self.weight, self.queries = self.weight + other.weight, self.queries + other.queries
    ...
    ...     def finalize(self):
    ...         return self.weight / self.queries
    >>> x = np.zeros((1, 2, 4, 8))
    >>> headwise.observe(x, x, x).run(EvenKeys())
    array([0.5, 0.5])
    """

    def init(self, sizes: Sizes) -> None:
        """Begin: ``sizes`` has ``outer``, ``heads``, ``query_len`` and ``kv_len``."""

    def update(self, tile: Tile) -> None:
        """Look at a tile of weights. Each query comes once, in order."""

    def merge(self, other: Self) -> None:
        """Add the numbers of another observer."""

    def finalize(self) -> Any:
        """Return what was seen."""
