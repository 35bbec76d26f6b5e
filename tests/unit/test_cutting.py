"""A cut mask shows what the whole one shows there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import causal, documents, lengths, prefix, window
from headwise._cutting import cut
from headwise._mask_kinds import Dense

SIZES = (2, 3, 9, 12)  # items, heads, queries, keys
OFFSET = 3


def masks() -> list[Any]:
    rng = np.random.default_rng(0)
    ids = rng.integers(3, size=(2, 12))
    arrays = [rng.random(shape) < 0.7 for shape in ((12,), (9, 12), (9, 1), (3, 9, 12))]
    arrays += [rng.random(shape) < 0.7 for shape in ((2, 1, 9, 12), (1, 3, 1, 12), (2, 3, 9, 1))]
    return [
        causal(),
        window(2, 3),
        lengths([5, 12]),
        lengths([5, 12], [9, 4], left=True),
        documents(ids[:, 3:], ids),
        documents(ids[0, 3:], ids[0]),
        prefix(4),
        prefix([2, 7]),
        *(Dense(array) for array in arrays),
        causal() & lengths([5, 12], left=True) | prefix(2),
        (causal() | Dense(arrays[1])) & documents(ids[:, 3:], ids),
    ]


def whole_of(mask: Any, queries: int, keys: int, offset: int) -> Any:
    shape = (*SIZES[:2], queries, keys)
    return np.broadcast_to(mask.to_array(queries, keys, offset), shape)


@pytest.mark.parametrize("mask", masks(), ids=repr)
@pytest.mark.parametrize(
    ("rows", "columns"), [((0, 9), (0, 12)), ((2, 7), (1, 9)), ((8, 9), (0, 3))]
)
def test_a_part_shows_what_the_whole_does(mask: Any, rows: Any, columns: Any) -> None:
    whole = whole_of(mask, *SIZES[2:], OFFSET)[..., slice(*rows), slice(*columns)]
    sizes = (rows[1] - rows[0], columns[1] - columns[0], OFFSET + rows[0] - columns[0])
    for item in (None, 0, 1):
        part = cut(mask, item, slice(*rows), slice(*columns), SIZES[2:])
        want = whole if item is None else whole[item : item + 1]
        shown = np.ones((), bool) if part is None else part.to_array(*sizes)
        assert np.array_equal(np.broadcast_to(shown, want.shape), want)
        assert part is not None or want.all()


def test_nothing_is_left_of_padding_that_was_cut_off() -> None:
    mask = causal() & lengths([5], [5], left=True)
    assert cut(mask, 0, slice(7, 12), slice(7, 12), (12, 12)) == causal()
    assert cut(lengths([5]), 0, slice(0, 5), slice(0, 5), (12, 12)) is None
    assert cut(None, 0, slice(0, 5), slice(0, 5), (12, 12)) is None
