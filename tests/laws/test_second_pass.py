"""Everything that the second pass collects, against the oracle, and its laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, reference, window
from headwise.statistics import (
    block_map,
    offset_mass,
    stripe,
    top_keys,
    value_weighted,
    window_received,
)
from tests.laws.test_row_statistics import WAYS, visibility
from tests.support import INSTRUCTION_SETS, SPLIT_ROWS, draw, forced, normal

LENGTHS = [(1, 1), (3, 3), (5, 40), (17, 17), (33, 31), (64, 65), (70, 257), (150, 150), (300, 299)]
PLAIN = ("received", "normalized_received", "viewer_count", "head_similarity")


def wanted(ids: Any = None) -> list[Any]:
    chosen = [*PLAIN, window_received(7), block_map(9, 6), top_keys(3), value_weighted()]
    chosen += ["offset_mass", "normalized_offset_mass"]
    return [*chosen, stripe(*ids, shift=-1), stripe(*ids, name="copies")] if ids else chosen


def close(dtype: Any) -> dict[str, float]:
    if dtype == np.float64:
        return {"rtol": 1e-12, "atol": 1e-13}
    return {"rtol": 1e-5, "atol": 2e-6}


def check(seen: Any, true: reference.Reference, dtype: Any, ids: Any = None) -> None:
    """Compare what was collected with the oracle's."""
    same = {"strict": False, **close(dtype)}
    for name in PLAIN:
        np.testing.assert_allclose(getattr(seen, name), getattr(true, name), err_msg=name, **same)
    np.testing.assert_allclose(seen.window_received, true.window_received(7), **same)
    np.testing.assert_allclose(seen.value_weighted, true.value_weighted(), **same)
    mean, largest = true.block_map(9, 6)
    np.testing.assert_allclose(seen.block_map.mean, mean, **same)
    np.testing.assert_allclose(seen.block_map.max, largest, **same)
    check_offsets(seen, true, same)
    check_top(seen.top_keys, true, same)
    if ids:
        np.testing.assert_allclose(seen.stripe, true.stripe(*ids, -1), **same)
        np.testing.assert_allclose(seen.copies, true.stripe(*ids), **same)


def check_offsets(seen: Any, true: reference.Reference, same: dict[str, Any]) -> None:
    mass, pairs, distances = true.offset_mass()
    np.testing.assert_array_equal(seen.offset_mass.first, distances)
    np.testing.assert_array_equal(seen.offset_mass.last, distances)
    np.testing.assert_allclose(seen.offset_mass.values, mass, **same)
    mean = mass / np.maximum(pairs, 1)
    np.testing.assert_allclose(seen.normalized_offset_mass.values, mean, **same)


def check_top(top: Any, true: reference.Reference, same: dict[str, Any]) -> None:
    """Check the largest weights, that each is the weight of its key, and that no key is twice."""
    weights, _ = true.top_keys(top.keys.shape[-1])
    np.testing.assert_allclose(top.weights, weights, **same)
    own = np.take_along_axis(true.seen, np.maximum(top.keys, 0), -1)
    np.testing.assert_allclose(top.weights, np.where(top.keys < 0, 0, own), **same)
    listed = np.sort(top.keys, axis=-1)
    assert not np.any((np.diff(listed, axis=-1) == 0) & (listed[..., 1:] >= 0))


def run(inputs: Any, ids: Any = None, **options: Any) -> None:
    true = reference.attention(*inputs, **options)
    for name in INSTRUCTION_SETS:
        with forced(name):
            seen = headwise.observe(*inputs, statistics=wanted(ids), **options)
        check(seen, true, inputs[0].dtype, ids)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_every_length(rng: np.random.Generator, dtype: Any, lengths: Any, way: str) -> None:
    inputs = draw(rng, (2, 4), lengths, (9, 5), dtype=dtype, kv_heads=2)
    ids = tuple(rng.integers(5, size=n) for n in lengths)
    run(inputs, ids, query_offset="lower_right", **visibility(rng, way, *lengths))


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 8, 9])
def test_every_number_of_heads(rng: np.random.Generator, dtype: Any, heads: int) -> None:
    run(draw(rng, (1, heads), (40, 300), (17, 3), dtype=dtype), query_offset=100, mask=causal())


@pytest.mark.parametrize("rows", [4, SPLIT_ROWS, SPLIT_ROWS + 1])
@pytest.mark.parametrize("kind", ["peaky", "tied", "large"])
def test_every_temper(rng: np.random.Generator, rows: int, kind: str) -> None:
    run(draw(rng, (2, 2), (rows, 600), (9, 5), kind=kind), mask=causal(), query_offset=500)


@pytest.mark.parametrize("options", [
    {"sink_logits": np.array([0.3, -1.0, 2.0, -np.inf])},
    {"softcap": 0.7},
    {"scale": -0.5, "bias": headwise.alibi([0.1, 0.2, 0.3, 0.4])},
    {"mask": window(20, 3)},
    {"mask": causal() & headwise.lengths([70, 0, 41], left=True)},
    {"mask": headwise.documents(np.arange(80) // 7)},
    {"query_offset": np.array([0, -30, 100]), "mask": causal()},
    {"query_offset": 300},
    {"query_offset": -300},
], ids="-".join)  # fmt: skip
def test_every_option(rng: np.random.Generator, dtype: Any, options: dict[str, Any]) -> None:
    inputs = draw(rng, (3, 4), (80, 80), (8, 5), dtype=dtype, kv_heads=2)
    ids = rng.integers(9, size=(3, 80))
    run(inputs, (ids, ids), **options)


@pytest.mark.parametrize("short", ["float16", "bfloat16"])
def test_short_floats_are_collected_in_float32(rng: np.random.Generator, short: str) -> None:
    torch = pytest.importorskip("torch")
    inputs = [torch.tensor(x).to(getattr(torch, short)) for x in draw(rng, (1, 4), (70, 90))]
    seen = headwise.observe(*inputs, causal(), query_offset=20, statistics=wanted())
    wide = [x.float().numpy() for x in inputs]
    true = reference.attention(*wide, causal(), query_offset=20)
    assert seen.received.dtype == torch.float32
    np.testing.assert_allclose(seen.received.numpy(), true.received, **close(np.float32))
    check_top(type(seen.top_keys)(*(x.numpy() for x in seen.top_keys)), true, close(np.float32))


@pytest.mark.parametrize("hidden", ["mask", "bias"])
def test_the_last_queries_may_see_nothing(
    rng: np.random.Generator, dtype: Any, hidden: str
) -> None:
    """Then window_received is of those before them, which is known after the first pass."""
    inputs = draw(rng, (1, 2), (90, 90), dtype=dtype)
    seen = np.ones((2, 90, 90), bool)
    seen[0, -3:] = seen[1, -50:] = False
    bias = np.where(seen, 0, -np.inf)
    options = {"mask": causal(), "bias": bias} if hidden == "bias" else {"mask": causal() & seen}
    run(inputs, **options)


def test_what_is_asked_for_with_it_changes_no_number(rng: np.random.Generator) -> None:
    inputs = draw(rng, (1, 3), (260, 260))
    together = headwise.observe(*inputs, causal(), statistics="all")
    for name in together.statistics:
        alone = headwise.observe(*inputs, causal(), statistics=name)
        one, all_of_it = getattr(alone, name), getattr(together, name)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (one, all_of_it))):  # noqa: B905
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15, err_msg=name)


def test_left_padding_changes_no_number(rng: np.random.Generator) -> None:
    inputs = draw(rng, (1, 2), (50, 50))
    padded = [np.concatenate([normal(rng, 1, 2, 9, 8), x], axis=2) for x in inputs]
    ids = rng.integers(9, size=50)
    behind = np.concatenate([ids[:9] * 0 + 99, ids])
    bare = headwise.observe(*inputs, causal(), statistics=wanted((ids, ids)))
    mask = causal() & headwise.lengths([50], [50], left=True)
    seen = headwise.observe(*padded, mask, statistics=wanted((behind, behind)))
    for name in ("received", "normalized_received", "window_received", "value_weighted", "stripe"):
        np.testing.assert_allclose(getattr(seen, name)[..., 9:], getattr(bare, name), rtol=1e-12)
        assert not np.any(getattr(seen, name)[..., :9])
    np.testing.assert_allclose(seen.head_similarity, bare.head_similarity, rtol=1e-12)
    np.testing.assert_allclose(
        seen.normalized_offset_mass.values[..., 9:-9],
        bare.normalized_offset_mass.values,
        rtol=1e-12,
    )
    keys = np.where(bare.top_keys.keys < 0, -1, bare.top_keys.keys + 9)
    np.testing.assert_array_equal(seen.top_keys.keys[..., 9:, :], keys)


def test_a_nan_query_shows_where_it_looks_and_nowhere_else(rng: np.random.Generator) -> None:
    for queries in (5, 40):
        query, key, value = draw(rng, (1, 2), (queries, 40))
        query[0, 1, 2] = np.nan
        seen = headwise.observe(
            query, key, value, causal(), query_offset=0, statistics=[*wanted(), "argmax"]
        )
        assert np.isnan(seen.received[0, 1, :3]).all()
        assert np.isfinite(seen.received[0, 1, 3:]).all()
        assert np.isfinite(seen.received[0, 0]).all()
        assert np.isnan(seen.top_keys.weights[0, 1, 2]).all()
        assert (seen.top_keys.keys[0, 1, 2] == -1).all()
        assert np.isfinite(np.delete(seen.top_keys.weights[0], 2, axis=1)).all()
        assert np.isnan(seen.block_map.max[0, 1]).any()
        assert np.isfinite(seen.block_map.max[0, 0]).all()


def test_values_known_beforehand() -> None:
    """Uniform causal rows, one-hot rows of the token before, and heads that are alike."""
    n = 40
    zeros = np.zeros((1, 2, n, 8))
    seen = headwise.observe(zeros, zeros, zeros, causal(), statistics="all")
    each = 1 / np.arange(1, n + 1)
    np.testing.assert_allclose(seen.received[0, 0], np.cumsum(each[::-1])[::-1], rtol=1e-13)
    np.testing.assert_array_equal(seen.viewer_count[0, 0], n - np.arange(n))
    np.testing.assert_allclose(seen.head_similarity[0], 1, rtol=1e-13)
    np.testing.assert_array_equal(seen.top_keys.keys[0, 0, 5], [0, 1, 2, 3])
    ahead = seen.offset_mass.values[0, 0, : n - 1]
    assert not ahead.any()
    np.testing.assert_allclose(seen.offset_mass.values[0, 0, n - 1], each.sum(), rtol=1e-13)
    before = 200 * np.eye(n)[None, None]
    seen = headwise.observe(
        np.roll(before, -1, axis=-1), before, before, causal(), statistics=["offset_mass"]
    )
    np.testing.assert_allclose(seen.offset_mass.values[0, 0, n], n - 1, rtol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0), (0, 0)])
def test_empty_calls(queries: int, keys: int) -> None:
    inputs = [np.zeros((2, 3, n, 4)) for n in (queries, keys, keys)]
    seen = headwise.observe(*inputs, query_offset=0, statistics="all")
    assert seen.received.shape == (2, 3, keys)
    assert not seen.received.any()
    assert seen.top_keys.keys.shape == (2, 3, queries, 4)
    assert seen.head_similarity.shape == (2, 3, 3)
    assert seen.block_map.mean.shape == (2, 3, queries and 5, keys and 5)


def test_no_heads_and_no_batch(rng: np.random.Generator) -> None:
    inputs = draw(rng, (), (6, 6))
    seen = headwise.observe(*inputs, causal(), statistics="all")
    true = reference.attention(*inputs, causal())
    np.testing.assert_allclose(seen.received, true.received)
    np.testing.assert_allclose(seen.offset_mass.values, true.offset_mass()[0])
    np.testing.assert_allclose(seen.head_similarity, [[1]])
    assert seen.top_keys.weights.shape == (6, 4)


def test_a_projection_measures_values_where_they_arrive(rng: np.random.Generator) -> None:
    query, key, value = draw(rng, (2, 4), (20, 20), (8, 5), kv_heads=2)
    projection = normal(rng, 4, 5, 11)
    seen = headwise.observe(query, key, value, statistics=value_weighted(projection))
    true = reference.attention(query, key, value)
    np.testing.assert_allclose(seen.value_weighted, true.value_weighted(projection), rtol=1e-12)


def test_distances_in_classes_add_up(rng: np.random.Generator) -> None:
    inputs = draw(rng, (2, 2), (30, 50))
    for offset in (20, np.array([0, 17])):
        seen, fine = (
            headwise.observe(*inputs, query_offset=offset, statistics=offset_mass(bins)).offset_mass
            for bins in ("log", "all")
        )
        np.testing.assert_allclose(seen.values.sum(axis=-1), 30, rtol=1e-12)
        for k, (first, last) in enumerate(zip(seen.first, seen.last, strict=True)):
            within = (fine.first >= first) & (fine.first <= last)
            np.testing.assert_allclose(seen.values[..., k], fine.values[..., within].sum(axis=-1))
        assert list(seen.last[seen.first > 0][:11]) == [*range(1, 10), 11, 13]
