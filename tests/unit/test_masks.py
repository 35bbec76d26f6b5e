"""Masks as objects: what they show, how they combine, and what is refused as a mask."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np
import pytest
import torch

import headwise
from headwise import causal, documents, lengths, prefix, window
from headwise._dense import boolean_mask, only_zeros_and_ones
from headwise._mask_kinds import Band, Mask, query_positions
from tests.support import refuses

T, F = True, False
QUERY_LEN, KV_LEN = 5, 7
OFFSETS = [-2, 0, 1, 9]


def brute(sees: Any, offset: int = 0, query_len: int = QUERY_LEN, kv_len: int = KV_LEN) -> Any:
    """Return the array of a mask by its definition, one pair of positions after another."""
    return np.array(
        [[bool(sees(i, j, i + offset)) for j in range(kv_len)] for i in range(query_len)], bool
    ).reshape(query_len, kv_len)


# Each mask that is the same for all items, and what query i, standing at p, sees of key j.
SHARED: dict[str, tuple[Mask, Any]] = {
    "causal": (causal(), lambda i, j, p: j <= p),
    "window": (window(2, 1), lambda i, j, p: -2 <= j - p <= 1),
    "window to the left": (window(2), lambda i, j, p: j - p >= -2),
    "window to the right": (window(right=1), lambda i, j, p: j - p <= 1),
    "window of nothing but itself": (window(0, 0), lambda i, j, p: j == p),
    "open window": (window(), lambda i, j, p: True),
    "lengths": (lengths(4), lambda i, j, p: j < 4),
    "lengths of queries, too": (lengths(4, 2), lambda i, j, p: j < 4 and i < 2),
    "left lengths": (lengths(4, left=True), lambda i, j, p: j >= 3),
    "left lengths of queries": (lengths(4, 2, left=True), lambda i, j, p: j >= 3 and i >= 3),
    "documents": (
        documents([1, 1, 2, 3, 1], [1, 2, 2, 1, 4, 4, 3]),
        lambda i, j, p: [1, 1, 2, 3, 1][i] == [1, 2, 2, 1, 4, 4, 3][j],
    ),
    "prefix": (prefix(3), lambda i, j, p: j < 3),
    "prefix of everything": (prefix(100), lambda i, j, p: True),
    "causal after a prefix": (causal() | prefix(3), lambda i, j, p: j <= p or j < 3),
    "both and either": (
        (causal() | prefix(3)) & window(2) & lengths(6),
        lambda i, j, p: (j <= p or j < 3) and j >= p - 2 and j < 6,
    ),
    "either and both": (
        prefix(1) | (causal() & window(1)),
        lambda i, j, p: j < 1 or (j <= p and j >= p - 1),
    ),
}


@pytest.mark.parametrize("what", SHARED)
@pytest.mark.parametrize("offset", OFFSETS)
def test_as_an_array(what: str, offset: int) -> None:
    mask, sees = SHARED[what]
    got = mask.to_array(QUERY_LEN, KV_LEN, offset)
    assert got.dtype == bool
    assert np.array_equal(got, brute(sees, offset))


@pytest.mark.parametrize("what", SHARED)
def test_visible(what: str) -> None:
    mask, sees = SHARED[what]
    for i, j, offset in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (2, 2, 1), (3, 0, -2), (4, 6, 3)]:
        seen = mask.visible(i, j, offset, query_len=QUERY_LEN, kv_len=KV_LEN)
        assert seen is bool(sees(i, j, i + offset))


@pytest.mark.parametrize("what", ["causal", "window", "prefix", "either and both"])
@pytest.mark.parametrize(("query_len", "kv_len"), [(0, 3), (3, 0), (1, 1)])
def test_of_no_length(what: str, query_len: int, kv_len: int) -> None:
    mask, sees = SHARED[what]
    assert np.array_equal(mask.to_array(query_len, kv_len), brute(sees, 0, query_len, kv_len))


def test_one_for_each_item() -> None:
    masks = {
        "offsets": (causal().to_array(2, 3, [0, 1]), lambda b: causal().to_array(2, 3, [0, 1][b])),
        "lengths": (
            lengths([1, 3], [2, 0]).to_array(2, 3),
            lambda b: lengths([1, 3][b], [2, 0][b]).to_array(2, 3),
        ),
        "prefix": (prefix([0, 2]).to_array(2, 3), lambda b: prefix([0, 2][b]).to_array(2, 3)),
        "documents": (
            documents([[0, 1], [1, 1]], [0, 0, 1]).to_array(2, 3),
            lambda b: documents([[0, 1], [1, 1]][b], [0, 0, 1]).to_array(2, 3),
        ),
    }
    for whole, item in masks.values():
        assert whole.shape == (2, 1, 2, 3)
        for b in range(2):
            assert np.array_equal(whole[b, 0], item(b))
    assert query_positions(2, [0, 5]).tolist() == [[[[0], [1]]], [[[5], [6]]]]


def test_visible_of_items_is_visible_in_all() -> None:
    assert lengths([2, 3]).visible(0, 1)
    assert not lengths([2, 3]).visible(0, 2)
    with refuses(ValueError, "left padding", "kv_len="):
        lengths([2, 3], left=True).visible(0, 1)


def test_visible_of_joined_items() -> None:
    masks = [
        lengths([1, 3]) | documents([[0, 0, 1], [0, 1, 1]]),
        lengths([[1], [3]]) | np.ones((2, 2, 1, 3, 3), bool) & documents([[0, 0, 1], [0, 1, 1]]),
        prefix([0, 1]) | np.array([[[[T, F, F]]], [[[F, F, F]]]]),
    ]
    for mask in masks:
        whole = mask.to_array(3, 3)
        for i, j in np.ndindex(3, 3):
            assert mask.visible(i, j) is bool(whole[..., i, j].all())


def test_chains_are_equal_however_they_are_grouped() -> None:
    a, b, c = causal(), prefix(2), lengths(3)
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert (a & b) | c != a & (b | c)
    assert documents([1, 2]) == documents([1, 2], [1, 2])
    assert repr(documents([1, 2], [1, 2])) == "documents([1, 2])"
    long = reduce(operator.or_, [prefix(n) for n in range(3000)])
    assert long == reduce(lambda m, n: n | m, [prefix(n) for n in reversed(range(3000))])
    assert repr(long).count("|") == 2999
    assert long.to_array(1, 2999).all()


def test_a_batch_of_nothing() -> None:
    for mask in (lengths([]), prefix([]), documents(np.zeros((0, 3), int))):
        assert mask.to_array(3, 3).shape == (0, 1, 3, 3)
    assert documents([]).to_array(0, 0).shape == (0, 0)


def test_masks_combine_with_arrays() -> None:
    dense, keys = np.array([[T, T, F], [F, T, T], [T, T, T]]), np.array([[T, F, T]])
    triangle = np.tri(3, dtype=bool)
    combined = [
        causal() & dense & keys,
        dense & causal() & keys,
        causal() & (causal() & dense & keys),
    ]
    for mask in combined:
        assert isinstance(mask, Mask)
        assert np.array_equal(mask.to_array(3, 3), triangle & dense & keys)
    for other in (dense.tolist(), dense.astype(int), torch.from_numpy(dense)):
        for mask in (causal() & other, other & causal()):
            assert np.array_equal(mask.to_array(3, 3), triangle & dense)
        for mask in (causal() | other, other | causal()):
            assert np.array_equal(mask.to_array(3, 3), triangle | dense)


def test_a_mask_of_keys_is_broadcast() -> None:
    mask = causal() & np.ones((2, 1, 1, 3), bool)
    assert mask.to_array(4, 3).shape == (2, 1, 4, 3)


def test_one_mask_of_keys(attend: Any) -> None:
    x, keys = np.arange(6.0).reshape(3, 2), np.array([T, F, T])
    want = attend(x, x[keys], x[keys], query_offset=0)
    for mask in (keys, keys.tolist(), keys.astype(int), np.where(keys, 0, -np.inf)):
        np.testing.assert_allclose(attend(x, x, x, mask), want, rtol=1e-14)
    both = attend(x, x, x, causal() & keys)
    np.testing.assert_allclose(both, attend(x, x, x, np.tri(3, dtype=bool) & keys), rtol=1e-14)
    assert (causal() & keys).visible(2, 0)
    assert not (causal() & keys).visible(2, 1)
    assert np.array_equal((causal() & keys).to_array(3, 3), np.tri(3, dtype=bool) & keys)


def test_masks_are_neither_true_nor_false() -> None:
    with refuses(TypeError, "mask", "&", "and"):
        causal() and np.ones((3, 3), bool)


@pytest.mark.parametrize(
    "text",
    [
        "causal()",
        "window(3, 0)",
        "window(None, 2)",
        "lengths([3, 5])",
        "lengths([3, 5], [1, 2], left=True)",
        "lengths(4)",
        "documents([1, 1, 2])",
        "documents([1, 1], [1, 1, 2])",
        "prefix(3)",
        "causal() & lengths([2, 3])",
        "(causal() | prefix(3)) & window(8, None)",
        "causal() | prefix(3) | window(1, None)",
    ],
)
def test_a_repr_makes_an_equal_mask(text: str) -> None:
    mask = eval(text, vars(headwise))
    assert repr(mask) == text
    again = eval(repr(mask), vars(headwise))
    assert mask == again
    assert len({mask, again}) == 1


def test_long_arrays_are_short_in_a_repr() -> None:
    assert repr(documents(np.zeros(8192, int))) == "documents(<int64 array (8192,)>)"
    dense = np.ones((2, 3), bool)
    assert repr(causal() & dense) == "causal() & <boolean mask (2, 3)>"


def test_masks_are_values() -> None:
    masks = [mask for mask, _ in SHARED.values()]
    assert len(set(masks)) == len(masks)
    assert causal() == window(right=0) == Band(right=0)
    assert causal() != window(right=1)
    assert lengths(3) != prefix(3)
    assert lengths([3]) != lengths(3)
    assert causal() != 3
    dense = np.ones((2, 3), bool)
    assert causal() & dense == causal() & dense
    assert causal() & dense != causal() & dense.copy()


def test_masks_are_frozen() -> None:
    ids = np.array([1, 1, 2])
    mask = documents(ids)
    ids[:] = 7
    assert mask == documents([1, 1, 2])
    with pytest.raises(AttributeError):
        causal().left = 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="read-only"):
        mask.query_ids[0] = 3  # type: ignore[attr-defined]


REFUSED: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "no dimension": (True, ValueError, ("1 dimension", "kv_len", "True")),
    "one dimension too short": (np.ones(2, bool), ValueError, ("(2, 3)", "(2,)")),
    "twos": (np.full((2, 3), 2), ValueError, ("0 (masked)", "1 (may attend)", "2", "boolean")),
    "minus ones": (np.array([[0, -1]]), ValueError, ("0 (masked)", "1 (may attend)", "-1")),
    "0.0 and 1.0": (np.eye(3), ValueError, ("0.0 and 1.0", "mask != 0", "bias=")),
    "0 and 1 in 16 bits": (
        np.eye(2, 3, dtype=np.float16), ValueError, ("0.0 and 1.0", "mask != 0", "bias="),
    ),
    "complex": (np.ones((2, 3), complex), TypeError, ("complex128", "boolean", "0 and 1")),
    "text": (np.array([["a"]]), TypeError, ("<U1", "boolean", "0 and 1")),
    "objects": (np.array([[None]]), TypeError, ("object", "boolean", "0 and 1")),
    "name": ("causal", TypeError, ("array", "headwise.causal()")),
    "function": (causal, TypeError, ("array", "headwise.causal()")),
    "another function": (prefix, TypeError, ("array", "headwise.prefix()")),
    "unknown mask": (Mask(), TypeError, ("headwise.masks", "Mask")),
    "twos and causal": (causal() & np.full((2, 3), 2), ValueError, ("0 (masked)", "2")),
    "array of another shape": (
        causal() & np.ones((2, 3), bool) & np.ones((4, 3), bool), ValueError, ("(2, 3)", "(4, 3)"),
    ),
    "too long": (lengths(4), ValueError, ("kv_lengths", "kv_len 3", "4")),
    "too many queries": (lengths(3, 3), ValueError, ("query_lengths", "query_len 2", "3")),
    "lengths of items": (lengths([1, 2]), ValueError, ("kv_lengths", "batch item", "(2,)")),
    "ids of other queries": (documents([1, 1, 1]), ValueError, ("query_ids", "2", "(3,)")),
    "ids of other keys": (documents([1, 1]), ValueError, ("key_ids", "3", "(2,)")),
    "ids of items": (
        documents([[1, 1]] * 2, [1, 1, 1]), ValueError, ("query_ids", "batch item", "(2, 2)"),
    ),
    "prefixes of items": (prefix([1, 2]), ValueError, ("prefix", "batch item", "(2,)")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_mask_is_refused(what: str, attend: Any) -> None:
    mask, kind, words = REFUSED[what]
    with refuses(kind, *words):
        attend(np.zeros((2, 4)), np.zeros((3, 4)), np.zeros((3, 4)), mask, query_offset=0)


WRONG_ARGUMENTS: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "window of -1": (lambda: window(-1, 0), ValueError, ("left", "None", "-1")),
    "window to -1": (lambda: window(0, -1), ValueError, ("right", "None", "-1")),
    "half a window": (lambda: window(0.5), TypeError, ("left", "whole number", "0.5")),
    "true window": (lambda: window(True), TypeError, ("left", "whole number", "True")),
    "negative length": (lambda: lengths([3, -1]), ValueError, ("kv_lengths", "-1")),
    "negative length of queries": (
        lambda: lengths(3, -1), ValueError, ("query_lengths", "-1"),
    ),
    "half a length": (lambda: lengths(0.5), TypeError, ("kv_lengths", "whole numbers", "float64")),
    "left of what": (lambda: lengths(3, left=2), TypeError, ("left", "True", "2")),
    "one id": (lambda: documents(3), ValueError, ("query_ids", "each position", "3")),
    "ids of text": (lambda: documents(["a"]), TypeError, ("query_ids", "whole numbers", "<U1")),
    "huge ids": (lambda: documents([2**64 - 1]), ValueError, ("query_ids", "64-bit")),
    "negative prefix": (lambda: prefix(-1), ValueError, ("n", "at least 0", "-1")),
    "floats": (lambda: causal() & np.full(3, -0.5), TypeError, ("boolean", "float64", "bias=")),
    "long floats": (lambda: causal() | np.ones(3, "longdouble"), TypeError, ("boolean", "bias=")),
    "a number": (lambda: causal() & True, ValueError, ("mask", "1 dimension", "True")),
    "a ragged list": (lambda: causal() & [[True], [True, False]], ValueError, ("mask", "regular")),
    "a name": (lambda: causal() & "causal", TypeError, ("headwise.causal()",)),
    "a function": (lambda: causal() | causal, TypeError, ("headwise.causal()",)),
    "all but": (lambda: ~causal(), TypeError, ("inverted", "to_array")),
    "half a query": (lambda: causal().visible(1.5, 0), TypeError, ("i must", "1.5")),
    "query before the first": (lambda: causal().visible(-1, 0), ValueError, ("i must", "-1")),
    "query beyond": (lambda: documents([1, 2]).visible(5, 0), ValueError, ("i must", "2", "5")),
    "key beyond": (
        lambda: (causal() | np.ones((2, 2), bool)).visible(0, 5), ValueError, ("j must", "2", "5"),
    ),
    "no such length": (lambda: causal().to_array(-1, 3), ValueError, ("query_len", "-1")),
    "a corner": (
        lambda: causal().to_array(2, 3, "lower_right"), TypeError, ("query_offset", "lower_right"),
    ),
    "half an offset": (lambda: causal().to_array(2, 3, 0.7), TypeError, ("query_offset", "0.7")),
    "array of another shape": (
        lambda: (causal() & np.ones((5, 5), bool)).to_array(3, 3), ValueError, ("(3, 3)", "(5, 5)"),
    ),
    "length beyond": (lambda: lengths(7).to_array(3, 3), ValueError, ("kv_lengths", "3", "7")),
    "and nothing": (lambda: causal() & None, TypeError, ("None", "expected a mask")),
    "or nothing": (lambda: causal() | None, TypeError, ("None", "|", "expected a mask")),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_ARGUMENTS)
def test_wrong_arguments_are_refused(what: str) -> None:
    make, kind, words = WRONG_ARGUMENTS[what]
    with refuses(kind, *words):
        make()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", ">i4"])
def test_tokenizers_masks_of_0_and_1(rng: np.random.Generator, dtype: str) -> None:
    visible = rng.random((4, 5)) < 0.5
    assert np.array_equal(boolean_mask(visible.astype(dtype)), visible)


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.eye(3), True),
        (np.zeros((3, 3)), False),
        (np.ones((3, 3)), False),
        (np.eye(3) * 0.5, False),
        (-np.eye(3), False),
        (np.where(np.eye(3), 1, -np.inf), False),
        (np.vstack([np.eye(3), np.full((1, 3), 2.0)]), False),
        (np.zeros((0, 3)), False),
        (np.zeros((3, 0)), False),
        (np.stack([np.zeros((2, 2)), np.ones((2, 2))]), True),
    ],
)
def test_booleans_in_floats_are_noticed(array: Any, found: bool) -> None:
    assert only_zeros_and_ones(array) is found
    assert only_zeros_and_ones(array.astype(np.float32)) is found


@pytest.mark.parametrize("number", [0.0, 1.0])
def test_a_float_mask_of_one_number_is_added(number: float, attend: Any) -> None:
    x = np.arange(6.0).reshape(3, 2)
    want = attend(x, x, x)
    np.testing.assert_allclose(attend(x, x, x, np.full((3, 3), number)), want, rtol=1e-14)


def test_0_and_1_may_be_added_as_a_bias(attend: Any) -> None:
    x = np.arange(6.0).reshape(3, 2)
    shifted = np.eye(3) - 1
    want = attend(x, x, x, bias=shifted)
    np.testing.assert_allclose(attend(x, x, x, bias=np.eye(3)), want, rtol=1e-13)


def test_masks_are_not_changed(attend: Any) -> None:
    x, mask = np.ones((3, 3)), np.tri(3, dtype=bool)
    attend(x, x, x, mask & causal())
    assert np.array_equal(mask, np.tri(3, dtype=bool))
