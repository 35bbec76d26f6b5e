"""What changes no bit of a result: threads, statistics, neighbours, and what comes later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, scaled_dot_product_attention
from tests.support import FEW_ROWS, KINDS, MANY, SPLIT_ROWS, draw, normal, same_bits

ALL_KINDS = pytest.mark.parametrize("kind", KINDS)
pytestmark = pytest.mark.usefixtures("instruction_set")


@ALL_KINDS
def test_statistics_change_no_bit(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str
) -> None:
    inputs = draw(rng, (2, 2), (queries, 300), (16, 8), dtype=dtype, kind=kind)
    options = {"mask": causal(), "query_offset": "lower_right"}
    plain = scaled_dot_product_attention(*inputs, **options)
    for statistics in (None, (), "entropy", ("argmax", "visible_count")):
        seen = headwise.observe(*inputs, statistics=statistics, **options)
        assert same_bits(seen.output, plain)


def test_statistics_change_no_bit_under_masks_and_biases(
    rng: np.random.Generator, dtype: Any, queries: int
) -> None:
    inputs = draw(rng, (2, 4), (queries, 77), (16, 8), dtype=dtype, kv_heads=2)
    options = {
        "mask": rng.random((2, 1, queries, 77)) < 0.5,
        "bias": normal(rng, 4, queries, 77),
    }
    plain = scaled_dot_product_attention(*inputs, **options)
    assert same_bits(headwise.observe(*inputs, **options).output, plain)


def test_the_number_of_threads_changes_no_bit(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (1, 3), (queries, 2100), (64, 40), dtype=dtype)
    one, two, three = (attend(*inputs, num_threads=n) for n in (1, 2, 3))
    assert same_bits(one, two)
    assert same_bits(one, three)


def test_the_number_of_threads_changes_no_bit_of_long_causal_rows(
    rng: np.random.Generator, dtype: Any
) -> None:
    inputs = draw(rng, (1, 1), (700, 700), (32, 32), dtype=dtype)
    one, two, three = (
        scaled_dot_product_attention(*inputs, causal(), num_threads=n) for n in (1, 2, 3)
    )
    assert same_bits(one, two)
    assert same_bits(one, three)


@pytest.mark.parametrize(
    ("fewer", "more"),
    [
        (1, FEW_ROWS - 1),
        (2, 3),
        (FEW_ROWS, SPLIT_ROWS),
        (MANY, 40),
        (SPLIT_ROWS + 1, 600),
        (70, 130),
    ],
)
def test_other_queries_change_no_bit(
    rng: np.random.Generator, dtype: Any, fewer: int, more: int
) -> None:
    query, key, value = draw(rng, (2, 1), (more, 1300), (17, 8), dtype=dtype)
    whole = scaled_dot_product_attention(query, key, value, causal(), query_offset=1200)
    first = query[..., :fewer, :]
    assert same_bits(
        scaled_dot_product_attention(first, key, value, causal(), query_offset=1200),
        whole[..., :fewer, :],
    )
    last = query[..., more - fewer :, :]
    offset = 1200 + more - fewer
    assert same_bits(
        scaled_dot_product_attention(last, key, value, causal(), query_offset=offset),
        whole[..., more - fewer :, :],
    )


@ALL_KINDS
def test_the_place_in_a_batch_changes_no_bit(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str, attend: Any
) -> None:
    query, key, value = draw(rng, (7, 2), (queries, 90), (16, 24), dtype=dtype, kind=kind)
    batch = attend(query, key, value)
    for item in (0, 3, 6):
        alone = attend(query[item], key[item], value[item])
        assert same_bits(batch[item], alone)
    backwards = attend(query[::-1], key[::-1], value[::-1])
    assert same_bits(backwards[::-1], batch)


@pytest.mark.parametrize("strange", [None, np.nan, np.inf])
@ALL_KINDS
def test_what_follows_changes_no_bit_of_a_causal_prefix(
    rng: np.random.Generator, dtype: Any, kind: str, strange: float | None
) -> None:
    length, prefix = 290, 270
    query, key, value = draw(rng, (2, 2), (length, length), (16, 8), dtype=dtype, kind=kind)
    before = scaled_dot_product_attention(
        query[..., :prefix, :], key[..., :prefix, :], value[..., :prefix, :], causal()
    )
    if strange is not None:
        key[..., prefix:, 3] = value[..., prefix:, :] = strange
    after = scaled_dot_product_attention(query, key, value, causal())
    assert same_bits(after[..., :prefix, :], before)


@pytest.mark.parametrize("strange", [None, np.nan, -np.inf])
def test_later_keys_change_no_bit_of_a_few_causal_queries(
    rng: np.random.Generator, dtype: Any, strange: float | None
) -> None:
    query, key, value = draw(rng, (2, 2), (5, 1300), (16, 8), dtype=dtype)
    short = scaled_dot_product_attention(
        query, key[..., :700, :], value[..., :700, :], causal(), query_offset="lower_right"
    )
    if strange is not None:
        key[..., 700:, :] = value[..., 700:, 5] = strange
    long = scaled_dot_product_attention(query, key, value, causal(), query_offset=695)
    assert same_bits(long, short)


@pytest.mark.parametrize("query_len", [1, 3, FEW_ROWS, 50])  # both ways on the same side of 16 rows
def test_grouped_heads_equal_repeated_heads(
    rng: np.random.Generator, dtype: Any, query_len: int, attend: Any
) -> None:
    query, key, value = draw(rng, (2, 6), (query_len, 80), (16, 8), dtype=dtype, kv_heads=2)
    grouped = attend(query, key, value)
    repeated = attend(query, np.repeat(key, 3, axis=1), np.repeat(value, 3, axis=1))
    assert same_bits(grouped, repeated)


def test_grouped_heads_equal_repeated_heads_under_masks(
    rng: np.random.Generator, dtype: Any
) -> None:
    query, key, value = draw(rng, (2, 6), (20, 20), (16, 8), dtype=dtype, kv_heads=3)
    options = {"mask": causal() & (rng.random((2, 6, 20, 20)) < 0.8)}
    grouped = scaled_dot_product_attention(query, key, value, **options)
    repeated = scaled_dot_product_attention(
        query, np.repeat(key, 2, axis=1), np.repeat(value, 2, axis=1), **options
    )
    assert same_bits(grouped, repeated)


def test_a_mask_given_in_parts_changes_no_bit(rng: np.random.Generator, dtype: Any) -> None:
    inputs = draw(rng, (2, 2), (30, 30), dtype=dtype)
    keys = rng.random((2, 1, 1, 30)) < 0.8
    triangle = np.tri(30, dtype=bool)
    dense = scaled_dot_product_attention(*inputs, triangle & keys)
    assert same_bits(scaled_dot_product_attention(*inputs, causal() & keys), dense)
    assert same_bits(scaled_dot_product_attention(*inputs, keys & causal()), dense)
    assert same_bits(scaled_dot_product_attention(*inputs, (triangle & keys).astype(int)), dense)


def test_an_additive_mask_is_a_bias(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    inputs = draw(rng, (2, 2), (queries, 30), dtype=dtype)
    mask = normal(rng, queries, 30, dtype=dtype)
    assert same_bits(
        scaled_dot_product_attention(*inputs, mask),
        scaled_dot_product_attention(*inputs, bias=mask),
    )


def test_hidden_values_change_no_bit(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 300), dtype=dtype)
    mask = rng.random((2, 1, 1, 300)) < 0.7
    clean = attend(query, key, value, mask)
    hidden = ~mask[:, :, 0, :, None]
    for strange in (np.nan, np.inf, -np.inf, 1e30):
        key_, value_ = (np.where(hidden, strange, x).astype(dtype) for x in (key, value))
        assert same_bits(attend(query, key_, value_, mask), clean)
