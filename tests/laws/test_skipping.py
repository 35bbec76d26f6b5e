"""What a mask excludes costs nothing: the kernels count the keys they compute scores for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import causal, documents, lengths, prefix, window
from headwise._prepare import prepare
from headwise.attention import run
from tests.support import draw

pytestmark = pytest.mark.usefixtures("instruction_set")
LENGTH = 2048
TILE = 256  # keys in a tile; a strip of queries computes from its first to its last visible key
STRIP = 32  # queries in a strip, at most


def counted(inputs: Any, mask: Any, **options: Any) -> tuple[Any, Any]:
    """Return of every row how many keys were computed, and how many of them it sees."""
    prepared = prepare(*inputs, mask, **options)
    rows = {name: np.zeros(prepared.sizes.rows, np.int64) for name in COUNTS}
    run(prepared, np.empty(prepared.sizes.output, prepared.dtype), rows)
    return rows["computed_keys"], rows["visible_count"]


COUNTS = ("computed_keys", "visible_count")
IDS = np.repeat(np.arange(8), LENGTH // 8)
BLOCKS = np.kron(np.random.default_rng(3).random((8, 8)) < 0.3, np.ones((256, 256), bool))
# Masks of the long sequence, and how many keys more than the visible ones a row may cost.
MASKS: dict[str, tuple[Any, int]] = {
    "causal": (causal(), STRIP),
    "window": (window(100, 0), STRIP),
    "window both ways": (window(64, 64), STRIP),
    "lengths": (lengths(300), 0),
    "left lengths": (lengths(300, left=True), 0),
    "lengths of queries": (lengths(300, 192), 0),
    "documents": (documents(IDS), 0),
    "documents and causal": (documents(IDS) & causal(), STRIP),
    "documents that come back": (documents(IDS % 4), TILE),
    "prefix": (prefix(70), 0),
    "a window and a prefix": (window(100, 0) | prefix(4), 2 * TILE),
    "causal after a prefix": (causal() | prefix(300), STRIP),
    "padding, window and prefix": ((window(100, 0) | prefix(4)) & lengths(1500), 2 * TILE),
    "blocks of an array": (causal() & BLOCKS, STRIP),
    "blocks of an array alone": (BLOCKS, 0),
}


@pytest.mark.parametrize("what", MASKS)
def test_many_queries_compute_what_they_see(rng: np.random.Generator, what: str) -> None:
    mask, slack = MASKS[what]
    inputs = draw(rng, (1, 1), (LENGTH, LENGTH), (4, 4), dtype=np.float32)
    computed, visible = counted(inputs, mask)
    assert np.all(visible <= computed)
    assert np.all(computed <= visible + slack)


# For one query at the end: a mask, and how many keys more than the visible ones are computed. Whole
# tiles before the first visible key are left out, and everything behind the last.
FEW: dict[str, tuple[Any, int]] = {
    "causal": (causal(), 0),
    "window": (window(100, 0), TILE),
    "lengths": (lengths(300), 0),
    "left lengths": (lengths(300, left=True), TILE),
    "documents": (documents(IDS[-1:], IDS), 0),
    "documents that come back": (documents([3], IDS % 4), 0),
    "prefix": (prefix(70), 0),
    "a window and a prefix": (window(100, 0) | prefix(4), TILE),
    "padding, window and prefix": ((window(700, 0) | prefix(4)) & lengths(1500), TILE),
    "blocks of an array": (BLOCKS[:1], 0),
}


@pytest.mark.parametrize("what", FEW)
def test_few_queries_read_the_tiles_they_see(rng: np.random.Generator, what: str) -> None:
    mask, slack = FEW[what]
    inputs = draw(rng, (1, 1), (1, LENGTH), (4, 4), dtype=np.float32)
    computed, visible = counted(inputs, mask, query_offset=LENGTH - 1)
    assert np.all(visible <= computed)
    assert np.all(computed <= visible + slack)


def test_padding_of_a_batch_costs_its_real_tokens(rng: np.random.Generator, queries: int) -> None:
    real = np.array([2048, 10, 0, 1000])
    inputs = draw(rng, (4, 1), (queries, LENGTH), (4, 4), dtype=np.float32)
    computed, _ = counted(inputs, lengths(real), query_offset=0)
    assert np.all(computed[:, 0] == real[:, None])


def test_a_mask_of_keys_as_an_array_costs_its_real_tokens(rng: np.random.Generator) -> None:
    inputs = draw(rng, (2, 1), (64, LENGTH), (4, 4), dtype=np.float32)
    real = np.arange(LENGTH) < np.array([700, 1500])[:, None, None, None]
    computed, _ = counted(inputs, real)
    assert np.all(computed[:, 0] == [[700], [1500]])
