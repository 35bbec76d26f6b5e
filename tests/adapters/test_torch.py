"""PyTorch's masks, where True means masked, become ours, where it means may attend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import headwise
from headwise.adapters.torch import mask_from_multihead_attention as convert
from tests.support import normal, refuses, run_script

MASKED = np.array([[False, True, True], [True, False, True]])
PADDING = np.array([[False, False, True], [False, True, True]])


def test_nothing_stays_nothing() -> None:
    assert convert() is None


@pytest.mark.parametrize("give", [np.asarray, torch.from_numpy, np.ndarray.tolist])
def test_boolean_masks_are_turned_round(give: Any) -> None:
    assert np.array_equal(convert(give(MASKED)), ~MASKED)
    padding = convert(key_padding_mask=give(PADDING))
    assert padding.shape == (2, 1, 1, 3)
    assert np.array_equal(padding[:, 0, 0], ~PADDING)
    assert np.array_equal(convert(key_padding_mask=give(PADDING[0])), ~PADDING[:1])


def test_both_at_once() -> None:
    both = convert(MASKED, PADDING)
    assert both.shape == (2, 1, 2, 3)
    assert np.array_equal(both, ~(MASKED | PADDING[:, None, None, :]))


def test_a_mask_for_each_head(rng: np.random.Generator) -> None:
    masked = rng.random((6, 2, 3)) < 0.5
    got = convert(masked, PADDING, num_heads=3)
    assert got.shape == (2, 3, 2, 3)
    for item in range(2):
        for head in range(3):
            want = ~(masked[3 * item + head] | PADDING[item])
            assert np.array_equal(got[item, head], want)


def test_float_masks_are_added() -> None:
    bias = np.where(MASKED, -np.inf, 0.5)
    assert np.array_equal(convert(bias), bias)
    padding = np.where(PADDING, -np.inf, 0.25)
    both = convert(bias, padding)
    assert np.array_equal(both, bias + padding[:, None, None, :])


def test_a_boolean_mask_and_a_float_one() -> None:
    want = np.where(MASKED | PADDING[:, None, None, :], -np.inf, 0.5)
    assert np.array_equal(convert(MASKED, np.where(PADDING, -np.inf, 0.5)), want)
    assert np.array_equal(convert(np.where(MASKED, -np.inf, 0.5), PADDING), want)


def test_what_comes_out_is_a_mask(rng: np.random.Generator) -> None:
    query, key = normal(rng, 2, 1, 2, 4), normal(rng, 2, 1, 3, 4)
    shown = ~(MASKED | PADDING[:, None, None, :])
    want = headwise.scaled_dot_product_attention(query, key, key, shown)
    for mask in (convert(MASKED, PADDING), convert(np.where(MASKED, -np.inf, 0), PADDING)):
        got = headwise.scaled_dot_product_attention(query, key, key, mask)
        np.testing.assert_allclose(got, want, atol=1e-15)


def test_masks_are_not_changed() -> None:
    masked, padding = MASKED.copy(), PADDING.copy()
    convert(masked, padding)
    assert np.array_equal(masked, MASKED)
    assert np.array_equal(padding, PADDING)


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_whole_numbers_are_refused(dtype: str, name: str) -> None:
    # PyTorch refuses them; passed on as they are they would mean the opposite of what they meant.
    with refuses((TypeError, ValueError), name, dtype, "bool"):
        convert(**{name: MASKED.astype(dtype)})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"attn_mask": np.ones(3, bool)},
            ("attn_mask", "(query_len, kv_len)", "num_heads", "(3,)"),
        ),
        ({"attn_mask": np.ones((1, 2, 3, 3), bool)}, ("attn_mask", "(1, 2, 3, 3)")),
        ({"attn_mask": np.ones((6, 2, 3), bool)}, ("attn_mask", "num_heads=", "6", "None")),
        (
            {"attn_mask": np.ones((6, 2, 3), bool), "num_heads": 4},
            ("num_heads=", "divisor of 6", "4"),
        ),
        ({"attn_mask": np.ones((6, 2, 3), bool), "num_heads": 0}, ("num_heads=", "0")),
        (
            {"key_padding_mask": np.ones((2, 1, 3), bool)},
            ("key_padding_mask", "kv_len", "(2, 1, 3)"),
        ),
        ({"key_padding_mask": np.True_}, ("key_padding_mask", "kv_len", "()")),
    ],
)
def test_other_shapes_are_refused(options: dict[str, Any], words: tuple[str, ...]) -> None:
    with refuses(ValueError, *words):
        convert(**options)


@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask"])
def test_what_is_no_array_is_refused_by_name(name: str) -> None:
    with refuses(TypeError, name, "dict"):
        convert(**{name: {}})


def test_importing_the_adapter_does_not_import_pytorch() -> None:
    script = "import sys, headwise.adapters.torch; print('torch' in sys.modules)"
    assert run_script(script).strip() == "False"
