"""Faults that were reported of other attention calls, each with its smallest input."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headwise
from headwise import causal, lengths, reference, scaled_dot_product_attention, window
from tests.support import draw, error, refuses, same_bits, ulp

T, F = True, False


def close(got: Any, true: Any, inputs: Any) -> bool:
    return error(got, true) <= 32 * ulp(inputs[0].dtype)


def test_1_a_row_that_is_masked_out(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (1, 1), (2, 2), dtype=dtype)
    mask = np.array([[T, T], [F, F]])
    output = attend(*inputs, mask)
    assert same_bits(output[0, 0, 1], np.zeros(8, dtype))
    assert close(output, reference.attention(*inputs, mask).output, inputs)
    assert np.isneginf(headwise.observe(*inputs, mask).lse[0, 0, 1])


def test_2_a_masked_value_of_1e30_never_shows(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (1, 1), (queries, 3), dtype=dtype)
    value[0, 0, 2] = 1e30
    output = attend(query, key, value, np.array([[T, T, F]]))
    assert same_bits(output, attend(query, key[..., :2, :], value[..., :2, :]))


def test_3_a_masked_key_of_nan(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (1, 1), (queries, 3), dtype=dtype)
    key[:, :, 1] = np.nan
    assert np.isfinite(attend(query, key, value, np.array([[T, F, T]]))).all()


def test_4_a_lower_triangle_of_floats_is_refused_with_the_remedy(dtype: Any, attend: Any) -> None:
    x = np.ones((8, 8), dtype)
    with refuses(ValueError, "mask", "0.0 and 1.0", "mask != 0", "bias="):
        attend(x, x, x, np.tril(np.ones((8, 8), dtype)))


def test_5_a_bias_of_another_precision_is_accepted(
    rng: np.random.Generator, dtype: Any, attend: Any
) -> None:
    inputs = draw(rng, (1, 1), (3, 3), dtype=dtype)
    other = np.float64 if dtype == np.float32 else np.float32
    bias = rng.normal(size=(3, 3)).astype(other)
    assert close(attend(*inputs, bias=bias), reference.attention(*inputs, bias=bias).output, inputs)


def test_5_a_float32_bias_with_a_bfloat16_query(rng: np.random.Generator, attend: Any) -> None:
    inputs = [x.astype(ml_dtypes.bfloat16) for x in draw(rng, (1, 1), (3, 3))]
    bias = rng.normal(size=(3, 3)).astype(np.float32)
    output = attend(*inputs, bias=bias)
    assert output.dtype == ml_dtypes.bfloat16
    assert error(output, reference.attention(*inputs, bias=bias).output) < 2**-7


def test_6_a_mask_per_batch_item_without_the_dimension_of_heads(attend: Any) -> None:
    x = np.zeros((2, 8, 3, 4))
    with refuses(ValueError, "mask", "(2, 8, 3, 3)", "(2, 3, 3)", "(2, 1, 3, 3)", "None"):
        attend(x, x, x, np.ones((2, 3, 3), bool))


def test_7_grouped_heads_with_a_mask_per_batch_item(
    rng: np.random.Generator, dtype: Any, attend: Any
) -> None:
    inputs = draw(rng, (2, 6), (5, 5), dtype=dtype, kv_heads=2)
    mask = rng.random((2, 1, 5, 5)) < 0.5
    assert close(attend(*inputs, mask), reference.attention(*inputs, mask).output, inputs)


def test_8_one_causal_query_against_8_keys_must_say_its_offset(
    rng: np.random.Generator, dtype: Any, attend: Any
) -> None:
    inputs = draw(rng, (1, 1), (1, 8), dtype=dtype)
    with refuses(ValueError, "query_offset", "lower_right", "upper_left", "1", "8", "key 7"):
        attend(*inputs, causal())
    sees_all = attend(*inputs, causal(), query_offset="lower_right")
    assert same_bits(sees_all, attend(*inputs))
    sees_one = attend(*inputs, causal(), query_offset="upper_left")
    assert same_bits(sees_one, inputs[2][:, :, :1])


def test_9_a_mask_and_causal_together(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (1, 2), (20, 20), dtype=dtype)
    mask = rng.random((20, 20)) < 0.5
    want = reference.attention(*inputs, mask & np.tri(20, dtype=bool)).output
    for both in (causal() & mask, mask & causal(), causal() & mask & causal()):
        assert close(attend(*inputs, both), want, inputs)


def test_10_causal_is_kept_when_weights_and_statistics_are_asked_for(
    rng: np.random.Generator, dtype: Any, queries: int
) -> None:
    inputs = draw(rng, (1, 2), (queries, queries), dtype=dtype)
    seen = headwise.observe(*inputs, causal())
    assert same_bits(seen.output, scaled_dot_product_attention(*inputs, causal()))
    assert not np.triu(seen.weights(), 1).any()


def test_11_a_window_without_a_mask(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (1, 2), (20, 20), dtype=dtype)
    near = abs(np.arange(20)[:, None] - np.arange(20)) <= 2
    want = reference.attention(*inputs, near).output
    assert close(attend(*inputs, window(2, 2)), want, inputs)


@pytest.mark.parametrize("short", [np.float16, ml_dtypes.bfloat16])
def test_12_products_beyond_the_range_of_float16(queries: int, short: Any, attend: Any) -> None:
    x = np.full((1, 1, queries, 80), 256, short)
    assert same_bits(attend(x, x, x), x)


def test_13_a_band_of_minus_infinities_gives_no_nan(
    rng: np.random.Generator, dtype: Any, attend: Any
) -> None:
    inputs = draw(rng, (1, 1), (600, 600), (16, 16), dtype=dtype)
    ones = np.ones((600, 600))
    bias = np.where((np.triu(ones, 1) + np.tril(ones, -10)) > 0, -np.inf, 0).astype(dtype)
    output = attend(*inputs, bias=bias)
    assert close(output, reference.attention(*inputs, bias=bias).output, inputs)


def test_14_a_query_of_nan_stays_in_its_row(
    rng: np.random.Generator, dtype: Any, attend: Any
) -> None:
    query, key, value = draw(rng, (1, 1), (3, 3), dtype=dtype)
    query[0, 0, 1] = np.nan
    nan = np.isnan(attend(query, key, value))
    assert nan[0, 0, 1].all()
    assert not nan[0, 0, [0, 2]].any()


def test_15_no_keys_give_zeros(dtype: Any, attend: Any) -> None:
    query, empty = np.ones((1, 1, 3, 4), dtype), np.ones((1, 1, 0, 4), dtype)
    assert same_bits(attend(query, empty, empty), np.zeros((1, 1, 3, 4), dtype))


def test_16_an_item_of_length_zero_in_a_batch(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (3, 2), (queries, 9), dtype=dtype)
    lengths = np.array([4, 0, 9])
    output = attend(*inputs, np.arange(9) < lengths[:, None, None, None])
    assert not output[1].any()
    for item in (0, 2):
        query, key, value = (x[item] for x in inputs)
        alone = attend(query, key[:, : lengths[item]], value[:, : lengths[item]])
        assert same_bits(output[item], alone)


def test_16_an_item_of_length_zero_in_a_batch_by_lengths(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (3, 2), (queries, 9), dtype=dtype)
    output = attend(*inputs, lengths([4, 0, 9]))
    assert not output[1].any()
    for item, n in ((0, 4), (2, 9)):
        query, key, value = (x[item] for x in inputs)
        assert same_bits(output[item], attend(query, key[:, :n], value[:, :n]))


@pytest.mark.parametrize("value_dim", [1, 5, 100])
def test_17_value_dim_differs_from_head_dim(
    rng: np.random.Generator, dtype: Any, queries: int, value_dim: int, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), (24, value_dim), dtype=dtype)
    output = attend(*inputs)
    assert output.shape == (2, 2, queries, value_dim)
    assert close(output, reference.attention(*inputs).output, inputs)


def test_19_one_query_against_32768_keys(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (1, 1), (1, 32_768), (64, 64), dtype=dtype)
    assert close(attend(*inputs), reference.attention(*inputs).output, inputs)


def test_20_one_item_alone_and_inside_a_batch_of_7(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (7, 2), (queries, 64), (32, 32), dtype=dtype)
    batch = attend(*inputs)
    for item in range(7):
        assert same_bits(attend(*(x[item : item + 1] for x in inputs))[0], batch[item])


def test_21_one_two_and_three_threads(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    inputs = draw(rng, (1, 2), (200, 700), (64, 64), dtype=dtype)
    first, *others = (attend(*inputs, num_threads=n) for n in (1, 2, 3))
    assert all(same_bits(first, other) for other in others)


def test_22_read_only_inputs(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (1, 2), (queries, 9), dtype=dtype)
    mask, bias = rng.random((queries, 9)) < 0.9, np.ones((queries, 9), dtype)
    want = attend(*inputs, mask, bias=bias)
    for x in (*inputs, mask, bias):
        x.flags.writeable = False
    assert same_bits(attend(*inputs, mask, bias=bias), want)


def test_23_left_padded_rows_equal_the_unpadded_ones(
    rng: np.random.Generator, dtype: Any, attend: Any
) -> None:
    pads = np.array([0, 2, 17])
    inputs = draw(rng, (3, 2), (20, 20), dtype=dtype)
    real = np.arange(20) >= pads[:, None, None, None]
    for mask in (real, lengths(20 - pads, left=True)):
        padded = attend(*inputs, causal() & mask)
        for item, pad in enumerate(pads):
            alone = attend(*(x[item, :, pad:] for x in inputs), causal())
            assert close(padded[item, :, pad:], alone, inputs)


def test_24_a_sink_takes_what_is_missing_from_a_row(
    rng: np.random.Generator, dtype: Any, queries: int
) -> None:
    inputs = draw(rng, (1, 2), (queries, 9), dtype=dtype)
    seen = headwise.observe(*inputs, sink_logits=[0.0, 1.0], query_offset=0)
    total = seen.weights().sum(axis=-1)
    assert np.all(total < 1)
    np.testing.assert_allclose(seen.sink_weight, 1 - total, atol=32 * ulp(dtype))


def test_25_a_cap_does_not_revive_a_masked_key(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (1, 2), (queries, 9), dtype=dtype)
    hidden = np.where(np.arange(9) == 4, -np.inf, 0)
    value[..., 4, :] = 1e30
    without = np.arange(9) != 4
    want = attend(query, key[..., without, :], value[..., without, :], softcap=5.0)
    for options in ({"bias": hidden}, {"mask": hidden}, {"mask": hidden == 0}):
        got = attend(query, key, value, softcap=5.0, **options)
        assert close(got, want, (query,))
