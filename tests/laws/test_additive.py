"""A float mask and a bias at once: both are added to the scores, one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import causal, reference
from tests.support import draw, normal, same_bits, ulp


@pytest.mark.parametrize("mask_dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 9), (2, 1, 1, 9)])
def test_both_are_added(
    *, rng: np.random.Generator, dtype: Any, queries: int, attend: Any, mask_dtype: str, shape: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), dtype=dtype)
    mask, bias = normal(rng, *shape, dtype=mask_dtype), normal(rng, queries, 9, dtype=dtype)
    true = reference.attention(*inputs, mask, bias=bias).output
    np.testing.assert_allclose(attend(*inputs, mask, bias=bias), true, atol=16 * ulp(dtype))


def test_a_causal_mask_and_a_bias(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (2, 2), (20, 20), dtype=dtype)
    bias = normal(rng, 2, 20, 20, dtype=dtype)
    true = reference.attention(*inputs, causal(), bias=bias).output
    np.testing.assert_allclose(attend(*inputs, causal(), bias=bias), true, atol=16 * ulp(dtype))


def test_minus_infinity_in_either_hides(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (2, 2), (20, 9), dtype=dtype)
    visible = rng.random((2, 20, 9)) < 0.6
    mask, bias = np.where(visible, 0, -np.inf)
    want = attend(*inputs, visible.all(axis=0))
    np.testing.assert_allclose(attend(*inputs, mask, bias=bias), want, atol=16 * ulp(dtype))


def test_two_most_negative_numbers_hide_nothing(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), dtype=dtype)
    least = np.full((queries, 9), np.finfo(dtype).min, dtype)
    mean = np.broadcast_to(inputs[2].mean(axis=-2, keepdims=True), (2, 2, queries, 8))
    np.testing.assert_allclose(attend(*inputs, least, bias=least), mean, atol=8 * ulp(dtype))


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_a_float_mask_hides_whatever_the_bias_is(
    rng: np.random.Generator, dtype: Any, queries: int, strange: float, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), dtype=dtype)
    mask, bias = np.zeros((1, 9), dtype), np.zeros((1, 9), dtype)
    mask[0, 4], bias[0, 4] = -np.inf, strange
    want = attend(*inputs, mask)
    assert same_bits(attend(*inputs, mask, bias=bias), want)
