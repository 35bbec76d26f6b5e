"""The cache of keys and values: growth, rollback, precision, and decoding with it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import headwise
from headwise import KVCache, causal, scaled_dot_product_attention
from tests.support import draw, normal, refuses, same_bits


def pair(rng: np.random.Generator, new: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    return normal(rng, 2, 3, new, 8, dtype=dtype), normal(rng, 2, 3, new, 5, dtype=dtype)


def test_what_is_appended_is_there(rng: np.random.Generator, dtype: Any) -> None:
    cache, pairs = KVCache(), [pair(rng, new, dtype) for new in (5, 1, 0, 80, 1, 300)]
    for k, v in pairs:
        cache.append(k, v)
    keys, values = (np.concatenate(x, axis=-2) for x in zip(*pairs, strict=True))
    assert len(cache) == 387
    assert same_bits(cache.key, keys)
    assert same_bits(cache.value, values)


def test_growth_is_amortised(rng: np.random.Generator) -> None:
    cache, (k, v) = KVCache(), pair(rng, 1)
    rooms = []
    for _ in range(2000):
        cache.append(k, v)
        rooms.append(cache.capacity)
    grown = sorted(set(rooms))
    assert len(grown) < 12
    assert all(b >= 1.4 * a for a, b in pairwise(grown))
    assert cache.nbytes == cache.capacity * 2 * 3 * (8 + 5) * 4
    roomy = KVCache(capacity=2000)
    roomy.append(k, v)
    first = roomy.key.ctypes.data
    for _ in range(1999):
        roomy.append(k, v)
    assert roomy.key.ctypes.data == first
    assert roomy.capacity == 2000


def test_views_are_no_copies(rng: np.random.Generator) -> None:
    cache = KVCache()
    cache.append(*pair(rng, 5))
    assert np.shares_memory(cache.key, cache.key)
    cache.key[...] = 7
    assert np.all(cache.key == 7)


def test_taking_tokens_back(rng: np.random.Generator) -> None:
    cache, (k, v), (other, more) = KVCache(), pair(rng, 9), pair(rng, 2)
    cache.append(k, v)
    cache.truncate(4)
    assert same_bits(cache.key, k[..., :4, :])
    cache.append(other, more)
    assert same_bits(cache.value, np.concatenate([v[..., :4, :], more], axis=-2))
    cache.truncate(0)
    assert cache.key.shape == (2, 3, 0, 8)
    for wrong, kind in ((1, ValueError), (-1, ValueError), (0.5, TypeError), (True, TypeError)):
        with refuses(kind, "length"):
            cache.truncate(wrong)  # type: ignore[arg-type]


def test_decoding_gives_the_bits_of_one_call(rng: np.random.Generator, dtype: Any) -> None:
    query, key, value = draw(rng, (2, 4), (40, 40), dtype=dtype, kv_heads=2)
    cache, rows = KVCache(), []
    for i in range(40):
        cache.append(key[..., i : i + 1, :], value[..., i : i + 1, :])
        one = query[..., i : i + 1, :]
        rows.append(
            scaled_dot_product_attention(
                one, cache.key, cache.value, causal(), query_offset="lower_right"
            )
        )
        whole = scaled_dot_product_attention(one, key[..., : i + 1, :], value[..., : i + 1, :])
        assert same_bits(rows[-1], whole)
    at_once = scaled_dot_product_attention(query, key, value, causal())
    np.testing.assert_allclose(np.concatenate(rows, axis=-2), at_once, atol=1e-6)


@pytest.mark.parametrize("stored", ["float16", "bfloat16", np.float16, torch.bfloat16])
def test_half_the_memory(rng: np.random.Generator, stored: Any) -> None:
    cache, (k, v) = KVCache(dtype=stored), pair(rng, 70)
    cache.append(k[..., :69, :], v[..., :69, :])
    cache.append(k[..., 69:, :], v[..., 69:, :])
    kind = ml_dtypes.bfloat16 if "bfloat16" in str(stored) else np.float16
    assert same_bits(cache.key, k.astype(kind))
    assert same_bits(cache.value, v.astype(kind))
    assert cache.nbytes == cache.capacity * 2 * 3 * (8 + 5) * 2
    query = normal(rng, 2, 3, 1, 8, dtype=np.float32)
    want = scaled_dot_product_attention(
        query, k.astype(kind).astype(np.float32), v.astype(kind).astype(np.float32)
    )
    assert same_bits(scaled_dot_product_attention(query, cache.key, cache.value), want)


def test_rounding_to_bfloat16_is_to_the_nearest() -> None:
    k = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, -0.0, np.nan, np.inf], np.float32)
    cache = KVCache(dtype="bfloat16")
    cache.append(k[None, :], k[None, :])
    assert same_bits(cache.key[0], k.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors_come_back_as_tensors(rng: np.random.Generator, dtype: Any) -> None:
    cache, (k, v) = KVCache(), (torch.from_numpy(x).to(dtype) for x in pair(rng, 6))
    cache.append(k, v)
    assert torch.equal(cache.key, k)
    assert torch.equal(cache.value, v)
    assert cache.key.dtype == dtype
    assert headwise.scaled_dot_product_attention(k, cache.key, cache.value).dtype == dtype


def test_what_does_not_fit_is_refused_and_changes_nothing(rng: np.random.Generator) -> None:
    cache, (k, v) = KVCache(), pair(rng, 6)
    with refuses(ValueError, "the cache is empty", "append"):
        assert cache.key is None
    cache.append(k, v)
    wrong: list[tuple[Any, Any, type[Exception], tuple[str, ...]]] = [
        (k, v[..., :5, :], ValueError, ("value", "(2, 3, 6, 5)", "(2, 3, 5, 5)")),
        (k[:1], v[:1], ValueError, ("key", "(2, 3, 6, 8)", "(1, 3, 6, 8)")),
        (k[..., :7], v, ValueError, ("key", "(2, 3, 6, 8)", "(2, 3, 6, 7)")),
        (k[0, 0, 0], v, ValueError, ("key", "at least 2", "(8,)")),
        (k.astype(np.float64), v, TypeError, ("key is float64", "float32", "dtype=")),
        (k, v.astype(np.float16), TypeError, ("value is float16", "float32", "dtype=")),
        (k.astype(complex), v, TypeError, ("key", "complex128")),
    ]
    for bad_key, bad_value, kind, words in wrong:
        with refuses(kind, *words):
            cache.append(bad_key, bad_value)
    assert same_bits(cache.key, k)
    assert same_bits(cache.value, v)
    for options, words in (
        ({"dtype": "int8"}, ("dtype", "bfloat16", "int8")),
        ({"dtype": np.complex64}, ("dtype", "complex64")),
        ({"capacity": 0.5}, ("capacity", "whole number")),
    ):
        with refuses(TypeError, *words):
            KVCache(**options)  # type: ignore[arg-type]


def test_a_failed_first_append_changes_nothing() -> None:
    cache, x = KVCache(capacity=2**60), np.ones((1, 2, 3, 4), np.float32)
    with refuses(MemoryError, "(1, 2, 1152921504606846976, 4)"):
        cache.append(x, x)
    assert repr(cache) == "<KVCache: empty, room for 1152921504606846976 positions>"


def test_float64_is_rounded_to_bfloat16_once() -> None:
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8 - 2.0**-40, -(1 + 2.0**-8 + 2.0**-40)])
    cache = KVCache(dtype="bfloat16")
    cache.append(x[None], x[None])
    assert cache.key[0].astype(float).tolist() == [1 + 2.0**-7, 1 + 2.0**-7, -1 - 2.0**-7]


@pytest.mark.parametrize("name", ["f4", np.dtype(">f4"), "single", np.float32, torch.float32])
def test_names_of_a_dtype(name: Any) -> None:
    cache = KVCache(dtype=name)
    cache.append(np.ones((3, 4)), np.ones((3, 4)))
    assert cache.key.dtype == np.dtype(np.float32)


def test_it_says_what_it_holds(rng: np.random.Generator) -> None:
    assert repr(KVCache(capacity=7)) == "<KVCache: empty, room for 7 positions>"
    cache = KVCache(dtype="bfloat16")
    cache.append(*pair(rng, 3))
    assert repr(cache) == (
        "<KVCache: 3 of 64 positions, key (2, 3, 3, 8), value (2, 3, 3, 5), bfloat16>"
    )
