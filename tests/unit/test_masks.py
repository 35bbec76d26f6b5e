"""Masks as objects: what they show, how they combine, and what is refused as a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from headwise import causal
from headwise.masks import Band, Causal, Mask, lower, only_zeros_and_ones, query_positions
from tests.support import refuses

T, F = True, False


@pytest.mark.parametrize("query_len", [0, 1, 4, 7])
@pytest.mark.parametrize("kv_len", [0, 1, 5])
@pytest.mark.parametrize("offset", [-2, 0, 1, 9])
def test_causal_as_an_array(query_len: int, kv_len: int, offset: int) -> None:
    want = [[j <= i + offset for j in range(kv_len)] for i in range(query_len)]
    got = causal().to_array(query_len, kv_len, offset)
    assert got.dtype == bool
    assert got.shape == (query_len, kv_len)
    assert got.tolist() == want


def test_an_offset_for_each_item() -> None:
    got = causal().to_array(2, 3, [0, 1])
    assert got.shape == (2, 1, 2, 3)
    for item, offset in enumerate((0, 1)):
        assert np.array_equal(got[item, 0], causal().to_array(2, 3, offset))
    assert query_positions(2, [0, 5]).tolist() == [[[[0], [1]]], [[[5], [6]]]]


@pytest.mark.parametrize(("i", "j"), [(0, 0), (1, 0), (0, 1), (2, 2), (2, 0)])
def test_visible(i: int, j: int) -> None:
    dense = np.array([[T, T, T], [F, T, T], [T, F, T]])
    assert causal().visible(i, j) is (j <= i)
    assert causal().visible(i, j, query_offset=1) is (j <= i + 1)
    assert (causal() & dense).visible(i, j) is bool(j <= i and dense[i, j])


def test_masks_combine_with_and() -> None:
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


def test_masks_say_what_they_are() -> None:
    assert repr(causal()) == "causal()"
    assert repr(causal() & np.ones((2, 3), bool)) == "causal() & <boolean mask (2, 3)>"


def test_masks_are_values() -> None:
    assert causal() == Causal()
    assert len({causal(), Causal()}) == 1
    with pytest.raises(AttributeError):
        causal().left = 3  # type: ignore[attr-defined]


def test_bands_combine_to_the_narrower() -> None:
    assert Band(right=0) & Band(left=4, right=2) == Band(left=4, right=0)
    assert Band() & Band() == Band()


def test_lowered_masks() -> None:
    dense = np.ones((2, 3), bool)
    assert lower(None).positional is False
    assert lower(causal()).band == Band(right=0)
    assert lower(causal()).positional
    assert lower(causal()).boolean is None
    assert lower(dense).boolean is dense  # and no copy
    assert not lower(dense).positional
    both = lower(causal() & dense)
    assert both.band == Band(right=0)
    assert both.boolean is dense
    assert lower(np.full((2, 3), -0.5)).additive is not None


REFUSED: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "no dimension": (True, ValueError, ("1 dimension", "kv_len", "True")),
    "one dimension too short": (np.ones(2, bool), ValueError, ("(2, 3)", "(2,)")),
    "twos": (np.full((2, 3), 2), ValueError, ("0 (masked)", "1 (may attend)", "2", "boolean")),
    "minus ones": (np.array([[0, -1]]), ValueError, ("0 (masked)", "1 (may attend)", "-1")),
    "0.0 and 1.0": (np.eye(3), ValueError, ("0.0 and 1.0", "mask != 0", "bias=")),
    "half": (np.ones((2, 3), np.float16), TypeError, ("float16", "bool", "float32 or float64")),
    "complex": (np.ones((2, 3), complex), TypeError, ("complex128", "boolean", "0 and 1")),
    "text": (np.array([["a"]]), TypeError, ("<U1", "boolean", "0 and 1")),
    "objects": (np.array([[None]]), TypeError, ("object", "boolean", "0 and 1")),
    "name": ("causal", TypeError, ("array", "headwise.causal()")),
    "function": (causal, TypeError, ("array", "headwise.causal()")),
    "unknown mask": (Mask(), TypeError, ("headwise.causal", "Mask")),
    "float and causal": (
        causal() & np.full((2, 3), -0.5), TypeError, ("boolean", "float", "bias="),
    ),
    "twos and causal": (causal() & np.full((2, 3), 2), ValueError, ("0 (masked)", "2")),
    "two shapes": (
        causal() & np.ones((2, 3), bool) & np.ones((4, 3), bool), ValueError, ("(2, 3)", "(4, 3)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_mask_is_refused(what: str, attend: Any) -> None:
    mask, kind, words = REFUSED[what]
    with refuses(kind, "mask", *words):
        attend(np.zeros((2, 4)), np.zeros((3, 4)), np.zeros((3, 4)), mask, query_offset=0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", ">i4"])
def test_tokenizers_masks_of_0_and_1(rng: np.random.Generator, dtype: str) -> None:
    visible = rng.random((4, 5)) < 0.5
    lowered = lower(visible.astype(dtype))
    assert lowered.boolean is not None
    assert np.array_equal(lowered.boolean, visible)


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


def test_a_mask_is_not_combined_with_nothing() -> None:
    with refuses(TypeError, "None", "expected a mask or a boolean array"):
        causal() & None
