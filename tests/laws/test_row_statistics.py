"""Every row statistic against the oracle's, and values that are known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, reference
from headwise.statistics import STATISTICS, first_weight
from tests.support import FEW, INSTRUCTION_SETS, MANY, check_statistics, draw, forced, normal, ulp

LENGTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 128, 255, 256, 257, 300)
WAYS = ["none", "causal", "mask", "causal and mask", "bias", "float mask", "bias and mask"]


def visibility(rng: np.random.Generator, way: str, rows: int, kv_len: int) -> dict[str, Any]:
    """Return the options of a way to hide keys."""
    visible = rng.random((2, 1, rows, kv_len)) < 0.6
    bias = normal(rng, 4, rows, kv_len)
    bias[rng.random(bias.shape) < 0.2] = -np.inf
    return {
        "none": {},
        "causal": {"mask": causal()},
        "mask": {"mask": visible},
        "causal and mask": {"mask": causal() & visible},
        "bias": {"bias": bias},
        "float mask": {"mask": bias},
        "bias and mask": {"bias": bias, "mask": visible},
    }[way]


def check(inputs: Any, first: int = 1, **options: Any) -> None:
    """Compare all statistics, with every instruction set."""
    true = reference.attention(*inputs, **options)
    statistics = (STATISTICS | {"first_weight": first_weight(first)}).values()
    for name in INSTRUCTION_SETS:
        with forced(name):
            seen = headwise.observe(*inputs, statistics=statistics, **options)
        check_statistics(seen, true, first)


@pytest.mark.parametrize("way", WAYS)
def test_every_length(rng: np.random.Generator, dtype: Any, queries: int, way: str) -> None:
    for kv_len in LENGTHS:
        inputs = draw(rng, (2, 4), (queries, kv_len), (9, 5), dtype=dtype, kv_heads=2)
        options = visibility(rng, way, queries, kv_len)
        check(inputs, query_offset="lower_right", **options)


@pytest.mark.parametrize("kind", ["peaky", "tied", "tiny"])
def test_every_temper(rng: np.random.Generator, dtype: Any, queries: int, kind: str) -> None:
    for kv_len in (5, 40, 300):
        inputs = draw(rng, (2, 2), (queries, kv_len), (9, 5), dtype=dtype, kind=kind)
        check(inputs, mask=causal(), query_offset="lower_right")


@pytest.mark.parametrize("offset", [0, 7, -2, 40, 1000, "upper_left", "lower_right"])
def test_every_offset(rng: np.random.Generator, dtype: Any, queries: int, offset: Any) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
    check(inputs, query_offset=offset)
    check(inputs, query_offset=offset, mask=causal())


def test_an_offset_for_each_batch_item(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    inputs = draw(rng, (3, 2), (queries, 40), dtype=dtype)
    offset = np.array([0, 21, -1], np.int32)
    check(inputs, query_offset=offset, mask=causal())
    check(inputs, query_offset=offset, mask=rng.random((queries, 40)) < 0.5)


@pytest.mark.parametrize("k", [1, 2, 4, 39, 40, 1000])
def test_the_first_keys(rng: np.random.Generator, dtype: Any, queries: int, k: int) -> None:
    check(draw(rng, (2, 2), (queries, 300), dtype=dtype), k, query_offset=0)
    check(draw(rng, (2, 2), (queries, 40), dtype=dtype), k, query_offset=20, mask=causal())


@pytest.mark.parametrize("scale", [0.0, -0.7, 1e-33])
def test_every_scale(rng: np.random.Generator, dtype: Any, queries: int, scale: float) -> None:
    check(draw(rng, (2, 2), (queries, 40), dtype=dtype), scale=scale, query_offset=3)


@pytest.mark.parametrize("kind", ["plain", "tied"])
def test_numbers_merge_over_chunks_of_keys(rng: np.random.Generator, dtype: Any, kind: str) -> None:
    inputs = draw(rng, (1, 2), (FEW, 2000), dtype=dtype, kind=kind)
    check(inputs, 600, query_offset=1200, mask=causal())
    check(inputs, 600, query_offset=700, mask=rng.random((FEW, 2000)) < 0.1)


def test_ties_go_to_the_first_key(dtype: Any, queries: int, instruction_set: str) -> None:
    query, key = np.ones((queries, 4), dtype), np.zeros((1200, 4), dtype)
    for first in (0, 1, 17, 255, 256, 511, 512, 1100):
        key[...] = 0
        key[[first, first + 1, 1199]] = 3
        seen = headwise.observe(query, key, key, statistics="argmax")
        assert np.all(seen.argmax == first)


@pytest.mark.parametrize("offset", [2**33 + 5, 2**40, -(2**40)])
def test_sums_of_distances_are_exact(dtype: Any, offset: int) -> None:
    query, key = np.zeros((3, 2), dtype), np.zeros((31, 2), dtype)
    seen = headwise.observe(query, key, key, query_offset=offset, statistics="visible_distance")
    want = [sum(abs(i + offset - j) for j in range(31)) for i in range(3)]
    assert seen.visible_distance.tolist() == want


def test_uniform_causal_rows(dtype: Any, instruction_set: str) -> None:
    length = 300
    zeros, n = np.zeros((1, 2, length, 16), dtype), np.arange(1, length + 1)
    seen = headwise.observe(zeros, zeros, zeros, causal())
    close = {"rtol": 16 * ulp(dtype), "atol": 16 * ulp(dtype)}
    known = {
        "lse": np.log(n),
        "entropy": np.log(n),
        "normalized_entropy": n > 1,
        "max_weight": 1 / n,
        "distance": (n - 1) / 2,
        "normalized_distance": n > 1,
        "self_weight": 1 / n,
        "previous_weight": np.where(n > 1, 1 / n, 0),
        "next_weight": 0 * n,
        "first_weight": 1 / n,
        "sink_weight": 0 * n,
        "argmax": 0 * n,
        "max_score": 0 * n,
        "visible_count": n,
        "visible_distance": n * (n - 1) // 2,
        "output_norm": 0 * n,
    }
    assert set(known) == {"lse", *seen.statistics}
    for name, want in known.items():
        np.testing.assert_allclose(getattr(seen, name)[0, 1], want, err_msg=name, **close)
    received = seen.weights().sum(axis=-2)[0, 1]
    np.testing.assert_allclose(received, np.cumsum((1 / n)[::-1])[::-1], rtol=1e-5)


def test_a_head_that_looks_at_the_previous_token(dtype: Any, instruction_set: str) -> None:
    length = MANY + 20
    key = 60 * np.eye(length, dtype=dtype)
    query = np.roll(key, 1, axis=0)  # query i is like key i - 1
    query[0] = key[0]
    seen = headwise.observe(query, key, key, causal())
    assert np.all(seen.previous_weight[1:] == 1)
    assert np.all(seen.max_weight == 1)
    assert np.all(abs(seen.entropy) < 1e-20)
    assert np.array_equal(seen.argmax, [0, *range(length - 1)])
    assert np.array_equal(seen.distance, [0] + [1] * (length - 1))


def test_a_pattern_of_four_tokens(dtype: Any, instruction_set: str) -> None:
    pattern = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.15, 0.5, 0.25]])
    with np.errstate(divide="ignore"):
        bias = np.log(pattern).astype(dtype)
    zeros = np.zeros((1, 1, 4, 8), dtype)
    seen = headwise.observe(zeros, zeros, zeros, causal(), bias=bias)
    weights = seen.weights()[0, 0]
    np.testing.assert_allclose(weights, pattern, atol=4 * ulp(dtype))
    previous = seen.previous_weight[0, 0]
    assert previous.sum() / weights.sum() == pytest.approx(0.325, rel=1e-6)
    others = 1 - seen.first_weight[0, 0] - np.where([0, 1, 1, 1], seen.self_weight[0, 0], 0)
    assert previous[2:].sum() / others.sum() == pytest.approx(0.8 / 0.95, rel=1e-6)
    assert previous[2:].sum() / others.sum() == pytest.approx(0.842, abs=5e-4)


def test_entropy_of_a_known_spread(dtype: Any, instruction_set: str) -> None:
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    zeros = np.zeros((1, 4), dtype), np.zeros((4, 4), dtype), np.zeros((4, 4), dtype)
    seen = headwise.observe(*zeros, bias=np.log2(weights)[None] * np.log(2))
    assert seen.entropy[0] == pytest.approx(1.75 * np.log(2), rel=1e-6)
    assert seen.normalized_entropy[0] == pytest.approx(1.75 / 2, rel=1e-6)
    assert seen.lse[0] == pytest.approx(0, abs=1e-6)


def test_the_length_of_the_output(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    seen = headwise.observe(*draw(rng, (2, 2), (queries, 9), dtype=dtype), query_offset=0)
    want = np.linalg.norm(seen.output.astype(float), axis=-1)
    np.testing.assert_allclose(seen.output_norm, want, rtol=2 * ulp(dtype))
