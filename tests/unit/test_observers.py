"""Observers of one's own see every exact weight once, in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, reference
from headwise.observers import Tile
from tests.support import draw, refuses


class Received:
    """The law's `received`, written by a user."""

    def init(self, sizes: Any) -> None:
        self.sums = np.zeros((*sizes.outer, sizes.heads, sizes.kv_len))
        self.queries: list[int] = []

    def update(self, tile: Tile) -> None:
        self.sums += tile.weights.sum(axis=-2)
        self.queries += list(tile.queries)

    def merge(self, other: Received) -> None:
        self.sums = self.sums + other.sums

    def finalize(self) -> Any:
        return self.sums


def test_an_observer_sees_every_weight_once(rng: np.random.Generator) -> None:
    inputs = draw(rng, (2, 3), (50, 50))
    observer = Received()
    seen = headwise.observe(*inputs, causal(), statistics=())
    np.testing.assert_allclose(seen.run(observer), reference.attention(*inputs, causal()).received)
    assert observer.queries == list(range(50))
    other = Received()
    seen.run(other)
    other.merge(observer)
    np.testing.assert_allclose(other.finalize(), 2 * observer.finalize())


@pytest.mark.parametrize("max_bytes", [0, 3000, 1 << 30])
def test_tiles_are_as_large_as_asked_for(rng: np.random.Generator, max_bytes: int) -> None:
    seen = headwise.observe(*draw(rng, (2, 2), (9, 20)), query_offset=[3, 5])
    tiles = list(seen.tiles(max_bytes))
    row = 2 * 2 * 20 * 8
    assert all(tile.weights.nbytes <= max(max_bytes, row) for tile in tiles)
    assert len(tiles) == {0: 9, 3000: 3, 1 << 30: 1}[max_bytes] or max_bytes == 3000
    np.testing.assert_array_equal(np.concatenate([t.weights for t in tiles], -2), seen.weights())
    positions = np.concatenate([t.positions for t in tiles], axis=-1)
    np.testing.assert_array_equal(positions, np.array([[3], [5]]) + np.arange(9))


def test_tiles_without_positions(rng: np.random.Generator) -> None:
    seen = headwise.observe(*draw(rng, (2,), (3, 4)))
    assert [tile.positions for tile in seen.tiles()] == [None]


def test_tiles_are_of_the_querys_type(rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    inputs = [torch.tensor(x) for x in draw(rng, (1, 2), (4, 4))]
    (tile,) = headwise.observe(*inputs).tiles()
    assert all(isinstance(x, torch.Tensor) for x in tile)


def test_what_is_no_observer_is_refused(rng: np.random.Generator) -> None:
    class Bad:
        def init(self, sizes: Any) -> None: ...

    seen = headwise.observe(*draw(rng, (1, 1), (3, 3)))
    with refuses(TypeError, "methods init, update, finalize", "Bad", "no update and no finalize"):
        seen.run(Bad())  # type: ignore[arg-type]
    with refuses(TypeError, "got the class Bad: call it"):
        seen.run(Bad)  # type: ignore[arg-type]
