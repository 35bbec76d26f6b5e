"""Inputs of 16 bits: computed in float32, and rounded once at the end."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headwise
from headwise import causal, scaled_dot_product_attention
from tests.support import draw, normal, same_bits

pytestmark = pytest.mark.usefixtures("instruction_set")
SHORT = pytest.mark.parametrize("short", [np.float16, ml_dtypes.bfloat16])
DIMS = [(1, 1), (3, 5), (8, 16), (17, 31), (64, 64), (80, 33), (256, 128)]


@SHORT
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("kind", ["plain", "peaky", "large", "tiny"])
def test_the_result_is_that_of_float32_rounded_once(
    *, rng: np.random.Generator, queries: int, short: Any, dims: Any, kind: str, attend: Any
) -> None:
    inputs = draw(rng, (2, 4), (queries, 300), dims, dtype=np.float32, kind=kind, kv_heads=2)
    narrow = [x.astype(short) for x in inputs]
    wide = [x.astype(np.float32) for x in narrow]
    options = {"mask": causal(), "query_offset": 270}
    want = attend(*wide, **options)
    assert same_bits(attend(*narrow, **options), want.astype(short))
    assert same_bits(attend(wide[0], *narrow[1:], **options), want)


@SHORT
def test_statistics_are_those_of_float32(
    rng: np.random.Generator, queries: int, short: Any
) -> None:
    narrow = [x.astype(short) for x in draw(rng, (2, 2), (queries, 70), dtype=np.float32)]
    seen = headwise.observe(*narrow, query_offset=3)
    want = headwise.observe(*(x.astype(np.float32) for x in narrow), query_offset=3)
    for name in ("lse", *seen.statistics):
        assert same_bits(getattr(seen, name), getattr(want, name)), name
    assert same_bits(seen.weights(), want.weights())


@SHORT
def test_any_strides(rng: np.random.Generator, queries: int, short: Any, attend: Any) -> None:
    inputs = [x.astype(short) for x in draw(rng, (2, 2), (queries, 70), dtype=np.float32)]
    want = attend(*inputs)
    swapped = [x.swapaxes(-1, -2).copy().swapaxes(-1, -2) for x in inputs]
    gaps = [np.repeat(x, 2, axis=-1)[..., ::2] for x in inputs]
    reversed_rows = [x[..., ::-1, :].copy()[..., ::-1, :] for x in inputs]
    for views in (swapped, gaps, reversed_rows):
        assert same_bits(attend(*views), want)


def test_the_other_byte_order(rng: np.random.Generator, queries: int, attend: Any) -> None:
    inputs = [x.astype(np.float16) for x in draw(rng, (2, 2), (queries, 70), dtype=np.float32)]
    assert same_bits(attend(*(x.astype(">f2") for x in inputs)), attend(*inputs))


def test_every_float16(queries: int, attend: Any) -> None:
    """Each number of 16 bits comes through a single key as it went in."""
    value = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(64, 1, 1024)
    query = np.zeros((64, queries, 4), np.float16)
    output = attend(query, np.zeros((64, 1, 4), np.float16), value)
    finite = np.isfinite(value[:, 0])
    assert np.array_equal(output[:, 0][finite], value[:, 0][finite])
    assert np.array_equal(np.isnan(output[:, 0]), np.isnan(value[:, 0]))
    assert np.array_equal(np.isinf(output[:, 0]), np.isinf(value[:, 0]))


@SHORT
def test_biases_of_16_bits(
    rng: np.random.Generator, dtype: Any, queries: int, short: Any, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 70), dtype=dtype)
    bias = normal(rng, queries, 70).astype(short)
    bias[:, 5] = -np.inf
    want = attend(*inputs, bias=bias.astype(dtype))
    assert same_bits(attend(*inputs, bias=bias), want)
    assert same_bits(attend(*inputs, bias), want)


@SHORT
def test_out(rng: np.random.Generator, short: Any) -> None:
    inputs = [x.astype(short) for x in draw(rng, (2, 2), (20, 70), dtype=np.float32)]
    out = np.zeros((2, 2, 20, 8), short)
    assert scaled_dot_product_attention(*inputs, out=out) is out
    assert same_bits(out, scaled_dot_product_attention(*inputs))
