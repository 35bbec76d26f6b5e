"""From masks to the kernels' programs."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from headwise import causal, documents, lengths, prefix, window
from headwise._binding import MASK_DEPTH, MASK_KINDS
from headwise._lowering import has_lengths, lengths_of, lower
from headwise._shapes import Sizes
from tests.support import refuses

SIZES = Sizes((2,), 3, 4, 5, 8, 8)
NAMES = {number: name for name, number in MASK_KINDS.items()}


def kinds(mask: Any) -> list[str]:
    return [NAMES[step[0]] for step in lower(mask, SIZES).program]


def test_what_masks_become() -> None:
    dense = np.ones((4, 5), bool)
    assert kinds(None) == []
    assert kinds(causal()) == ["band"]
    assert kinds(dense) == ["array"]
    assert lower(dense, SIZES).program[0][1] is dense  # and no copy
    assert kinds(causal() & window(2) & causal()) == ["band"]
    assert kinds(causal() & dense) == ["band", "array", "all_of"]
    assert kinds(causal() | prefix(2)) == ["band", "ranges", "any_of"]
    assert kinds(lengths([1, 2])) == ["ranges"]
    assert kinds(documents([1, 1, 2, 2], [1, 1, 1, 2, 2])) == ["ranges"]
    assert kinds(documents([1, 1, 2, 2], [1, 2, 1, 2, 2])) == ["ranges", "same", "all_of"]
    additive = np.full((4, 5), -0.5)
    assert lower(additive, SIZES).additive is additive


def test_bands_combine_to_the_narrower() -> None:
    [step] = lower(causal() & window(4, 2) & window(6), SIZES).program
    assert step == (MASK_KINDS["band"], 4, 0)
    most = np.iinfo(np.int64).max
    assert lower(window(1 << 60, 3), SIZES).program == [(MASK_KINDS["band"], most, 3)]


def test_what_shows_everything_is_no_step() -> None:
    for mask in (window(), window(1 << 60), window() & window(), causal() | window()):
        assert lower(mask, SIZES).program == []
        assert not lower(mask, SIZES).positional
    assert kinds(causal() & window()) == ["band"]
    assert kinds(window() & prefix(1) & np.ones(5, bool)) == ["ranges", "array", "all_of"]


def test_what_depends_on_positions() -> None:
    positional = [causal(), window(2), causal() & np.ones(5, bool), prefix(1) | causal()]
    assert all(lower(mask, SIZES).positional for mask in positional)
    others = [None, np.ones(5, bool), lengths([1, 2]), prefix(1), documents([1] * 4, [1] * 5)]
    assert not any(lower(mask, SIZES).positional for mask in others)


def test_structured_masks_stay_small() -> None:
    """Their arrays grow with the queries or the keys, not with the product."""
    sizes = Sizes((), 1, 3000, 5000, 8, 8)
    ids = np.arange(5000) % 7
    masks = [
        causal() & lengths(4000, 2000),
        documents(ids[:3000], ids) & window(10),
        documents(np.sort(ids)[:3000], np.sort(ids)) | prefix(8),
    ]
    for mask in masks:
        assert all(array.size <= 2 * 5000 for array in lower(mask, sizes).arrays)


def test_ranges_of_documents() -> None:
    mask = documents([[5, 9, 9, 7], [9, 5, 1, 1]], [[5, 5, 9, 9, 9], [1, 1, 1, 5, 9]])
    [step] = lower(mask, SIZES).program
    want = [[[0, 2], [2, 5], [2, 5], [0, 0]], [[4, 5], [3, 4], [0, 3], [0, 3]]]
    assert step[1][:, 0].tolist() == want


def nested(levels: int) -> Any:
    """Return a mask whose operands all wait for one another: a full tree of so many levels."""
    if not levels:
        return prefix(1)
    one, other = nested(levels - 1), nested(levels - 1)
    return one & other if levels % 2 else one | other


def test_deep_masks() -> None:
    assert lower(nested(MASK_DEPTH - 1), SIZES).program
    with refuses(ValueError, "levels deep", "to_array"):
        lower(nested(MASK_DEPTH), SIZES)
    chain = reduce(lambda mask, n: mask | prefix(n) & causal(), range(200), causal())
    assert len(lower(chain, SIZES).program) == 801


@pytest.mark.parametrize("joined", [False, True])
def test_padding_in_a_mask(joined: bool) -> None:
    padding = lengths([1, 2])
    mask = causal() & padding if joined else padding
    assert lengths_of(mask) == [padding]
    assert has_lengths(mask)
    assert lengths_of(mask | prefix(1)) == []
    assert has_lengths(mask | prefix(1))
    assert not has_lengths(causal())
    assert lengths_of(None) == []
