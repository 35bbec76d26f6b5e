"""Numbers at the ends of their ranges: positions, biases, scores and sinks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import alibi, causal, lengths, reference, relative, scaled_dot_product_attention
from tests.support import Pool, draw, same_bits, ulp

pytestmark = pytest.mark.usefixtures("instruction_set")


@pytest.mark.parametrize("sink", [650.0, 699.0, 701.0, 705.0, 709.0, 711.0])
def test_a_sink_at_the_end_of_the_exponents_range(queries: int, dtype: Any, sink: float) -> None:
    x = np.zeros((1, 1, queries, 4), dtype)
    seen = headwise.observe(x, x, x, sink_logits=sink, query_offset=0)
    np.testing.assert_allclose(seen.lse, sink, rtol=4 * ulp(dtype))
    np.testing.assert_allclose(seen.sink_weight, 1, rtol=4 * ulp(dtype))
    for name in ("entropy", "normalized_entropy"):
        np.testing.assert_allclose(getattr(seen, name), 0, atol=1e-12)


def test_steep_slopes_hide_nothing(queries: int, dtype: Any, attend: Any) -> None:
    x = np.ones((1, 2, queries, 4), dtype)
    far = attend(x, x, x, bias=alibi([2.0**60, -(2.0**60)]), query_offset=2**40)
    assert np.array_equal(far, x)
    near = attend(x, x, x, causal(), bias=alibi([2.0**60] * 2))
    assert np.array_equal(near, x)


@pytest.mark.parametrize("offset", [2**25, 2**30])
def test_slopes_of_far_positions(rng: np.random.Generator, queries: int, offset: int) -> None:
    pool = Pool(np.float32)
    for _ in range(4):
        inputs = draw(rng, (5, 2), (queries, 256), dtype=np.float32)
        pool.add(inputs, bias=alibi([1.0, 1 / 256]), query_offset=offset)
    pool.check()


def test_far_distances_are_counted_one_by_one(queries: int) -> None:
    x = np.ones((1, 1, queries, 4))
    keys = np.ones((1, 1, 700, 4))
    seen = headwise.observe(x, keys, keys, query_offset=2**40, statistics="distance")
    want = 2**40 + np.arange(queries) - 349.5
    np.testing.assert_allclose(seen.distance[0, 0], want, rtol=1e-14)


def test_sums_of_distances_end_at_the_largest_whole_number(queries: int) -> None:
    x, keys = np.zeros((1, queries, 1)), np.broadcast_to(np.zeros((1, 1, 1)), (1, 1 << 24, 1))
    seen = headwise.observe(x, keys, keys, query_offset=2**40, statistics="visible_distance")
    assert np.all(seen.visible_distance == np.iinfo(np.int64).max)


NINF, INF, NAN, MOST = -np.inf, np.inf, np.nan, np.finfo(np.float64).max


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (INF, NINF, "hidden"),
        (NINF, INF, "hidden"),
        (NINF, NAN, "hidden"),
        (NAN, NINF, "hidden"),
        (-MOST, -MOST, "equal"),
        (MOST, MOST, "equal"),
        (MOST, -MOST, "equal"),
        (NAN, 0.0, "nan"),
        (INF, 0.0, "nan"),
    ],
)
@pytest.mark.parametrize("how", ["dense, dense", "dense, table", "table, table", "mask, table"])
def test_two_biases_of_a_score(
    *, dtype: Any, queries: int, one: float, other: float, what: str, how: str, attend: Any
) -> None:
    value = np.arange(8.0, dtype=dtype).reshape(1, 1, 2, 4)
    query, key = np.ones((1, 1, queries, 4), dtype), np.ones((1, 1, 2, 4), dtype)
    dense = {n: np.full((queries, 2), n) for n in (one, other)}
    table = {n: relative([[n]]) for n in (one, other)}
    options: dict[str, Any] = {"query_offset": 0}
    if how == "mask, table":
        options |= {"mask": dense[one], "bias": table[other]}
    else:
        first, second = (dense if name == "dense" else table for name in how.split(", "))
        zero = relative([[0.0]])  # makes a sum of two arrays one of headwise's
        options["bias"] = zero + first[one] + second[other]
    got = attend(query, key, value, **options)
    if what == "nan":
        assert np.isnan(got).all()
    else:
        want = np.zeros(4) if what == "hidden" else value[0, 0].mean(axis=0)
        np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=4 * ulp(dtype))


def test_scores_beyond_float32_are_no_empty_row(queries: int) -> None:
    x = np.ones((1, 1, queries, 4), np.float32)
    for sign in (1, -1):
        seen = headwise.observe(x, x, x, scale=sign * 1e38, query_offset=0)
        assert np.array_equal(seen.output, x)
        assert np.all(seen.lse == sign * np.finfo(np.float32).max)
        assert np.all(seen.max_score == seen.lse)
        assert not seen.empty_rows.any()


@pytest.mark.parametrize("order", ["C", "F"])
def test_offsets_that_broadcast(rng: np.random.Generator, order: Any, attend: Any) -> None:
    inputs = draw(rng, (2, 3, 1), (4, 4))
    whole = np.array([[0, 1, 2], [0, 1, 2]], order=order)
    want = attend(*inputs, causal(), query_offset=whole)
    for offset in ([0, 1, 2], [[0, 1, 2]], whole):
        assert same_bits(attend(*inputs, causal(), query_offset=offset), want)
    true = reference.attention(*inputs, causal(), query_offset=whole).output
    np.testing.assert_allclose(want, true, atol=1e-14)
    corner = attend(*inputs, causal() & lengths([1, 2, 3], [1, 1, 1]), query_offset="lower_right")
    same = lengths([[1, 2, 3]] * 2, [[1, 1, 1]] * 2)
    given = {"mask": causal() & same, "query_offset": whole}
    assert same_bits(corner, scaled_dot_product_attention(*inputs, **given))
