"""What comes into the scores, and in which order: scale, cap, bias, mask, sink."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import alibi, alibi_slopes, causal, reference, relative, scaled_dot_product_attention
from tests.support import Pool, check_statistics, draw, normal, refuses, same_bits, ulp

SLOPES = alibi_slopes(4)


@pytest.mark.parametrize("kind", ["plain", "peaky", "tiny"])
@pytest.mark.parametrize("softcap", [0.3, 5.0, 50.0])
def test_the_error_of_capped_scores(
    rng: np.random.Generator, dtype: Any, queries: int, kind: str, softcap: float
) -> None:
    pool = Pool(dtype)
    for n in (3, 17, 40, 300):
        inputs = draw(rng, (25, 2), (queries, n), (16, 8), dtype=dtype, kind=kind)
        pool.add(inputs, softcap=softcap)
    pool.check()


def structured(rng: np.random.Generator, heads: int) -> dict[str, Any]:
    table = normal(rng, heads, 31)
    return {"alibi": alibi(SLOPES[:heads]), "relative": relative(table),
            "both": alibi(SLOPES[:heads]) + relative(table)}  # fmt: skip


@pytest.mark.parametrize("what", ["alibi", "relative", "both"])
def test_the_error_of_structured_biases(
    rng: np.random.Generator, dtype: Any, queries: int, what: str
) -> None:
    pool = Pool(dtype)
    for n in (17, 40, 300, 700):
        inputs = draw(rng, (5, 2), (queries, n), (16, 8), dtype=dtype)
        pool.add(inputs, bias=structured(rng, 2)[what], query_offset=n - queries)
    pool.check()


@pytest.mark.parametrize("what", ["alibi", "relative", "both"])
def test_structured_biases_are_their_arrays(
    rng: np.random.Generator, instruction_set: str, queries: int, what: str, attend: Any
) -> None:
    inputs = draw(rng, (2, 4), (queries, 300), (16, 8), kv_heads=2)
    bias = structured(rng, 4)[what]
    offset = np.array([270, -3])
    got = attend(*inputs, causal(), bias=bias, query_offset=offset)
    dense = bias.to_array(queries, 300, offset)
    want = attend(*inputs, causal(), bias=dense, query_offset=offset)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_a_cap_bounds_the_scores(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype, kind="large")
    seen = headwise.observe(*inputs, softcap=3.0, query_offset=0)
    assert np.all(abs(seen.max_score) <= 3.0 * (1 + 4 * ulp(dtype)))
    check_statistics(seen, reference.attention(*inputs, softcap=3.0, query_offset=0))


def test_a_far_cap_changes_nothing(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
    want = attend(*inputs)
    for softcap in (1e8, 1e30, 1e39, 1e300):
        np.testing.assert_allclose(attend(*inputs, softcap=softcap), want, atol=32 * ulp(dtype))


@pytest.mark.parametrize("softcap", [1e-10, 1e-40, 1e-300])
def test_a_tiny_cap_makes_all_keys_equal(
    rng: np.random.Generator, dtype: Any, queries: int, softcap: float, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
    inputs[0][..., 0, :] = 0
    mean = np.broadcast_to(inputs[2].mean(axis=-2, keepdims=True), (2, 2, queries, 8))
    np.testing.assert_allclose(attend(*inputs, softcap=softcap), mean, atol=1e-6)


def test_the_cap_comes_before_the_bias(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
    bias = 20 * normal(rng, queries, 40)
    want = reference.attention(*inputs, bias=bias, softcap=1.0).output
    np.testing.assert_allclose(attend(*inputs, bias=bias, softcap=1.0), want, atol=1e-5)


def test_a_sink_takes_its_share(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    inputs = draw(rng, (2, 4), (queries, 300), dtype=dtype, kv_heads=2)
    sinks = [-np.inf, 0.0, 3.0, 40.0]
    seen = headwise.observe(*inputs, sink_logits=sinks, query_offset=0)
    true = reference.attention(*inputs, sink_logits=sinks, query_offset=0)
    check_statistics(seen, true)
    np.testing.assert_allclose(
        seen.weights().sum(axis=-1) + seen.sink_weight, 1, rtol=0, atol=64 * ulp(dtype)
    )
    without = headwise.observe(*inputs, query_offset=0)
    for name in ("output", "lse", *seen.statistics):
        assert same_bits(getattr(seen, name)[:, 0], getattr(without, name)[:, 0]), name
    np.testing.assert_allclose(seen.output, true.output, atol=16 * ulp(dtype))


@pytest.mark.parametrize("sink", [100.0, 1e3, 1e30])
def test_a_sink_that_takes_everything(
    rng: np.random.Generator, dtype: Any, queries: int, sink: float
) -> None:
    inputs = draw(rng, (1, 2), (queries, 40), dtype=dtype)
    seen = headwise.observe(*inputs, sink_logits=sink, query_offset=0)
    assert np.all(abs(seen.output) < 1e-30)
    np.testing.assert_allclose(seen.sink_weight, 1, rtol=4 * ulp(dtype))
    assert np.all(abs(seen.entropy) < 1e4 * ulp(dtype))
    np.testing.assert_allclose(seen.lse, np.full((1, 2, queries), sink).astype(dtype))


def test_a_sink_beside_large_scores(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    inputs = draw(rng, (1, 2), (queries, 40), dtype=dtype, kind="large")
    seen = headwise.observe(*inputs, sink_logits=[100.0, 900.0], query_offset=0)
    true = reference.attention(*inputs, sink_logits=[100.0, 900.0], query_offset=0)
    np.testing.assert_allclose(seen.sink_weight, true.sink_weight, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(seen.lse, true.lse, rtol=8 * ulp(dtype))


def test_a_row_that_sees_no_key_has_no_sink_either(rng: np.random.Generator, queries: int) -> None:
    inputs = draw(rng, (1, 2), (queries, 40))
    mask = np.arange(queries)[:, None] != 1
    seen = headwise.observe(*inputs, mask, sink_logits=2.0, query_offset=0)
    assert not seen.output[0, :, 1].any()
    assert np.isneginf(seen.lse[0, :, 1]).all()
    assert not seen.sink_weight[0, :, 1].any()
    assert seen.sink_weight[0, :, 0].all()
    assert np.array_equal(seen.empty_rows, [[1, 1]])


def test_nan_beside_a_sink_stays_nan(rng: np.random.Generator, queries: int) -> None:
    query, key, value = draw(rng, (1, 1), (queries, 40))
    query[..., 1, 0] = np.nan
    seen = headwise.observe(query, key, value, sink_logits=[3.0], query_offset=0)
    for name in ("output", "lse", "sink_weight", "entropy", "max_weight"):
        strange = np.isnan(getattr(seen, name)).reshape(queries, -1).any(axis=-1)
        assert np.array_equal(strange, np.arange(queries) == 1), name


@pytest.mark.parametrize("scale", [None, 0, -0.5, 1e-35, 1e30])
def test_scales_with_everything_else(
    rng: np.random.Generator, dtype: Any, queries: int, scale: Any, instruction_set: str
) -> None:
    inputs = draw(rng, (2, 4), (queries, 70), dtype=dtype, kv_heads=2)
    options = {"bias": alibi(SLOPES) + normal(rng, queries, 70), "sink_logits": normal(rng, 4),
               "softcap": 4.0, "scale": scale, "query_offset": 50}  # fmt: skip
    true = reference.attention(*inputs, **options)
    check_statistics(headwise.observe(*inputs, **options), true)
    got = scaled_dot_product_attention(*inputs, **options)
    np.testing.assert_allclose(got, true.output, atol=16 * ulp(dtype))


REFUSED: list[tuple[dict[str, Any], type[Exception], tuple[str, ...]]] = [
    ({"softcap": 0}, ValueError, ("softcap", "greater than 0", "None")),
    ({"softcap": -1.0}, ValueError, ("softcap", "greater than 0", "-1.0")),
    ({"softcap": np.inf}, ValueError, ("softcap", "finite", "inf")),
    ({"softcap": "30"}, TypeError, ("softcap", "number or None", "'30'")),
    ({"softcap": True}, TypeError, ("softcap", "number or None", "True")),
    ({"sink_logits": [1.0, 2.0]}, ValueError, ("sink_logits", "(num_heads,) = (3,)", "(2,)")),
    ({"sink_logits": [[1.0]] * 3}, ValueError, ("sink_logits", "(3,)", "(3, 1)")),
    ({"sink_logits": [np.nan] * 3}, ValueError, ("sink_logits", "finite", "-inf")),
    ({"sink_logits": [np.inf] * 3}, ValueError, ("sink_logits", "finite", "-inf")),
    ({"sink_logits": ["1"] * 3}, TypeError, ("sink_logits", "<U1")),
]


@pytest.mark.parametrize(("options", "kind", "words"), REFUSED)
def test_what_makes_no_sense_is_refused(
    options: dict[str, Any], kind: type[Exception], words: tuple[str, ...], attend: Any
) -> None:
    x = np.zeros((1, 3, 4, 8))
    with refuses(kind, *words):
        attend(x, x, x, **options)
