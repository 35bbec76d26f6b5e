"""What changes no bit of what the second pass collects: threads, neighbours, memory, hidden NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, window
from headwise.statistics import top_keys
from tests.laws.test_second_pass import wanted
from tests.support import draw, same_bits


def parts(seen: Any, name: str) -> list[Any]:
    """Return the arrays of a statistic."""
    result = getattr(seen, name)
    return [np.asarray(x) for x in (result if isinstance(result, tuple) else (result,))]


def check_threads(inputs: Any, chosen: list[Any], **options: Any) -> None:
    """Compare every bit: with many threads scores are computed again, with few they are kept."""
    seen = [
        headwise.observe(*inputs, statistics=chosen, num_threads=threads, **options)
        for threads in (1, 2, 64)
    ]
    assert same_bits(seen[0].output, headwise.scaled_dot_product_attention(*inputs, **options))
    for name in ("output", "lse", *seen[0].statistics):
        first, *others = (parts(s, name) for s in seen)
        assert all(all(map(same_bits, first, other)) for other in others), name


@pytest.mark.parametrize("alone", ["", "head_similarity"], ids=["together", "heads apart"])
@pytest.mark.parametrize("mask", [causal(), causal() & window(left=130)], ids=["causal", "window"])
@pytest.mark.parametrize("sizes", [(3, 16), (40, 16), (700, 16), (70, 512)], ids=str)
def test_threads_change_no_bit(
    rng: np.random.Generator, dtype: Any, sizes: tuple[int, int], mask: Any, alone: str
) -> None:
    queries, dim = sizes
    inputs = draw(rng, (2, 4), (queries, 700), (dim, dim), dtype=dtype, kv_heads=2)
    ids = (np.arange(queries) % 50, np.arange(700) % 50)
    chosen = [s for s in (*headwise.statistics.STATISTICS, *wanted(ids)) if s != alone]
    check_threads(inputs, chosen, mask=mask, query_offset=205)


def test_threads_change_no_bit_far_away(rng: np.random.Generator, dtype: Any) -> None:
    """Positions are rounded in float32 from 2²⁴ on, whatever a row's neighbours see."""
    inputs = draw(rng, (1, 2), (72, 100), dtype=dtype, kv_heads=1)
    mask = np.ones((2, 1, 100), bool)
    mask[0, 0, :3] = False
    options = {"mask": mask, "bias": headwise.alibi([0.5, 0.25]), "query_offset": 2**25}
    check_threads(inputs, ["distance", "received"], **options)


@pytest.mark.parametrize("queries", [5, 40, 70])
def test_a_hidden_nan_reaches_no_sum(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    query, key, value = draw(rng, (1, 3), (queries, 100), dtype=dtype)
    mask = np.arange(100) != 50
    expected = headwise.observe(query, key, value, mask, statistics=wanted(), query_offset=0)
    key[..., 50, :] = value[..., 50, 0] = np.nan
    seen = headwise.observe(query, key, value, mask, statistics=wanted(), query_offset=0)
    for name in set(seen.statistics) - {"value_weighted"}:  # 0 · NaN, as its formula has it
        assert all(map(same_bits, parts(seen, name), parts(expected, name))), name


def test_more_keys_than_there_is_room_for(rng: np.random.Generator) -> None:
    """Scores that would take too much memory are computed again: the same bits."""
    inputs = draw(rng, (1, 96), (66, 16_000), (1, 1), dtype=np.float32)
    chosen = ["received", "head_products", top_keys(2)]
    whole = headwise.observe(*inputs, statistics=chosen, num_threads=1)
    some = headwise.observe(*(x[:, :3] for x in inputs), statistics=chosen, num_threads=1)
    assert same_bits(whole.output[:, :3], some.output)
    assert same_bits(whole.received[:, :3], some.received)
    assert same_bits(whole.top_keys.keys[:, :3], some.top_keys.keys)
    np.testing.assert_allclose(whole.head_products[:, :3, :3], some.head_products, rtol=1e-6)
