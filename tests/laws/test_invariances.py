"""Laws of attention that hold whatever the numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, reference, scaled_dot_product_attention
from tests.support import INSTRUCTION_SETS, KINDS, Errors, allowed, draw, error, forced, normal, ulp

ALL_KINDS = pytest.mark.parametrize("kind", KINDS)


@ALL_KINDS
def test_outputs_are_convex_combinations_of_visible_values(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str, attend: Any
) -> None:
    inputs = draw(rng, (3, 2), (queries, 70), (16, 8), dtype=dtype, kind=kind)
    mask = rng.random((3, 1, queries, 70)) < 0.3
    visible = mask[..., None] & np.ones((3, 2, queries, 70, 8), bool)
    values = np.broadcast_to(inputs[2][..., None, :, :], visible.shape)
    lowest = values.min(axis=-2, where=visible, initial=np.inf)
    highest = values.max(axis=-2, where=visible, initial=-np.inf)
    tiny = np.finfo(dtype).smallest_subnormal
    slack = 16 * max(ulp(dtype) * float(abs(inputs[2]).max()), float(tiny))
    for name in INSTRUCTION_SETS:
        with forced(name):
            output = attend(*inputs, mask).astype(float)
        assert np.all((lowest - slack <= output) & (output <= highest + slack))


@ALL_KINDS
def test_the_order_of_keys_does_not_matter(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str, attend: Any
) -> None:
    query, key, value = draw(rng, (3, 2), (queries, 90), (16, 8), dtype=dtype, kind=kind)
    mask, bias = rng.random((queries, 90)) < 0.7, normal(rng, 2, queries, 90, dtype=dtype)
    order = rng.permutation(90)
    ways = [
        (query, key, value, mask, bias),
        (query, key[..., order, :], value[..., order, :], mask[:, order], bias[..., order]),
    ]
    true = reference.attention(query, key, value, mask, bias=bias).output
    plain = [
        error(reference.attention(*way[:4], bias=way[4], dtype=dtype).output, true) for way in ways
    ]
    bound = 2 * allowed(max(plain), float(abs(true).max()), dtype)
    for name in INSTRUCTION_SETS:
        with forced(name):
            one, other = (attend(*way[:4], bias=way[4]) for way in ways)
        assert error(one, other) <= bound


def test_permuting_heads_permutes_heads(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (2, 5), (queries, 40), dtype=dtype)
    order = rng.permutation(5)
    permuted = attend(*(x[:, order] for x in (query, key, value)))
    assert np.array_equal(permuted, attend(query, key, value)[:, order])


def test_equal_values_come_out_as_they_are(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 300), dtype=dtype)
    value[...] = value[..., :1, :]
    output = scaled_dot_product_attention(query, key, value)
    np.testing.assert_allclose(
        output, np.broadcast_to(value[..., :1, :], output.shape), rtol=16 * ulp(dtype)
    )


def test_a_constant_bias_changes_nothing_but_lse(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
    plain = headwise.observe(*inputs)
    raised = headwise.observe(*inputs, bias=np.full((1, 1), 4.0, dtype))
    np.testing.assert_allclose(raised.output, plain.output, atol=16 * ulp(dtype))
    np.testing.assert_allclose(raised.lse, plain.lse + 4, rtol=8 * ulp(dtype))


@pytest.mark.parametrize("kind", ["plain", "large", "peaky", "tied"])
def test_weights_of_a_row_add_to_one(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str, instruction_set: str
) -> None:
    inputs = draw(rng, (2, 2), (queries, 300), (16, 8), dtype=dtype, kind=kind)
    weights = headwise.observe(*inputs, causal(), query_offset=270).weights()
    np.testing.assert_allclose(weights.sum(axis=-1, dtype=float), 1, atol=16 * ulp(dtype))
    assert weights.min() >= 0


@pytest.mark.parametrize("kind", ["plain", "peaky", "tied"])
def test_weights_have_at_most_twice_the_error_of_the_plain_computation(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str, instruction_set: str
) -> None:
    wider = np.float64 if dtype == np.float32 else np.longdouble
    found, plain = Errors(), Errors()
    for _ in range(8):
        inputs = draw(rng, (4, 2), (queries, 60), (16, 8), dtype=dtype, kind=kind)
        true = reference.attention(*inputs, dtype=wider).weights
        found.add(headwise.observe(*inputs, query_offset=0).weights(), true)
        plain.add(reference.attention(*inputs, dtype=dtype).weights, true)
    assert found.mean <= allowed(plain.mean, plain.size, dtype)
    assert found.most <= 2 * allowed(plain.most, plain.size, dtype)


def test_weights_give_the_output(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    inputs = draw(rng, (2, 4), (queries, 300), (16, 8), dtype=dtype, kv_heads=2)
    seen = headwise.observe(*inputs, rng.random((queries, 300)) < 0.5)
    output = seen.weights() @ np.repeat(inputs[2], 2, axis=1)
    np.testing.assert_allclose(output, seen.output, atol=100 * ulp(dtype))


def test_weights_of_hidden_keys_are_exactly_zero(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 50), dtype=dtype)
    mask = rng.random((2, 1, queries, 50)) < 0.5
    mask[:, :, 1] = False
    key[..., 7, :], mask[..., 7] = np.nan, False
    weights = headwise.observe(query, key, value, mask).weights()
    assert not weights[~np.broadcast_to(mask, weights.shape)].any()


@pytest.mark.parametrize("per_item", [False, True])
def test_left_padding_changes_nothing(
    rng: np.random.Generator, dtype: Any, per_item: bool, instruction_set: str
) -> None:
    pads = (0, 3, 9)
    query, key, value = draw(rng, (3, 2), (20, 20), dtype=dtype)
    real = np.arange(20) >= np.array(pads)[:, None]
    offset = np.zeros(3, int) if per_item else 0
    mask = causal() & real[:, None, None, :]
    padded = headwise.observe(query, key, value, mask, query_offset=offset)
    for item, pad in enumerate(pads):
        alone = headwise.observe(*(x[item, :, pad:] for x in (query, key, value)), causal())
        close = {"atol": 32 * ulp(dtype), "rtol": 1e-5 if dtype == np.float32 else 1e-12}
        np.testing.assert_allclose(padded.output[item, :, pad:], alone.output, **close)
        for name in ("entropy", "distance", "previous_weight", "visible_count"):
            got = getattr(padded, name)[item, :, pad:]
            np.testing.assert_allclose(got, getattr(alone, name), err_msg=name, **close)
