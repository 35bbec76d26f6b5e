"""The oracle itself, against sums written out one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from headwise import causal, reference
from tests.support import draw

LOWEST = -math.inf


def one_row(
    scores: list[float], values: list[list[float]]
) -> tuple[list[float], float, list[float]]:
    """Return weights, log-sum-exp and output of one query, by the definition."""
    seen = [s for s in scores if s > LOWEST]
    if not seen:
        return [0.0] * len(scores), LOWEST, [0.0] * len(values[0])
    lse = math.log(math.fsum(math.exp(s) for s in seen))
    weights = [math.exp(s - lse) for s in scores]
    columns = zip(*values, strict=True)
    return (
        weights,
        lse,
        [math.fsum(w * v for w, v in zip(weights, c, strict=True)) for c in columns],
    )


def by_hand(inputs: Any, visible: Any, bias: Any, scale: float) -> list[Any]:
    """Attend in each (item, head, query) by itself; query head h reads head h // group."""
    query, key, value = inputs
    group = query.shape[1] // key.shape[1]
    rows = []
    for item, head, i in np.ndindex(query.shape[:-1]):
        k, v = key[item, head // group], value[item, head // group]
        scores = [
            scale * math.fsum(query[item, head, i] * k[j]) + bias[item, head, i, j]
            if visible[item, head, i, j]
            else LOWEST
            for j in range(len(k))
        ]
        rows.append(one_row(scores, v.tolist()))
    shape = query.shape[:-1]
    parts = (np.array(part) for part in zip(*rows, strict=True))
    return [part.reshape(*shape, *part.shape[1:]) for part in parts]


@pytest.mark.parametrize("lengths", [(1, 1), (4, 4), (3, 7), (7, 3)])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_attention_by_hand(rng: np.random.Generator, lengths: Any, kv_heads: int) -> None:
    inputs = draw(rng, (2, 4), lengths, (5, 3), kv_heads=kv_heads)
    shape = (2, 4, *lengths)
    mask, bias = rng.random(shape) < 0.7, rng.normal(size=shape)
    bias[rng.random(shape) < 0.2] = -np.inf
    seen = causal().to_array(*lengths, query_offset=1) & mask & (bias > LOWEST)
    weights, lse, output = by_hand(inputs, seen, bias, -0.6)
    got = reference.attention(*inputs, causal() & mask, bias=bias, scale=-0.6, query_offset=1)
    np.testing.assert_allclose(got.weights, weights, atol=1e-14)
    np.testing.assert_allclose(got.lse, lse, atol=1e-13)
    np.testing.assert_allclose(got.output, output, atol=1e-13)
    assert np.array_equal(got.visible, seen)


def test_a_float_mask_is_added_too(rng: np.random.Generator) -> None:
    inputs = draw(rng, (2, 4), (3, 7), (5, 3))
    mask, bias = rng.normal(size=(2, 2, 1, 3, 7))
    ones = np.ones((2, 4, 3, 7), bool)
    _, lse, output = by_hand(inputs, ones, ones * (mask + bias).repeat(4, axis=1), 1 / math.sqrt(5))
    got = reference.attention(*inputs, mask, bias=bias)
    np.testing.assert_allclose(got.lse, lse, atol=1e-13)
    np.testing.assert_allclose(got.output, output, atol=1e-13)


def statistics_by_hand(
    weights: Any, scores: Any, value: Any, offset: int, i: int
) -> dict[str, float]:
    keys = range(len(weights))
    seen = [j for j in keys if scores[j] > LOWEST]
    far = [abs(i + offset - j) for j in keys]
    at = {i + offset - j: weights[j] for j in keys}
    output = [math.fsum(weights[j] * value[j][d] for j in keys) for d in range(len(value[0]))]
    entropy = -math.fsum(p * math.log(p) for p in weights if p > 0)
    distance = math.fsum(weights[j] * far[j] for j in keys)
    mean = sum(far[j] for j in seen) / max(len(seen), 1)
    return {
        "max_score": max(scores, default=LOWEST),
        "entropy": entropy,
        "normalized_entropy": entropy / math.log(len(seen)) if len(seen) > 1 else 0,
        "max_weight": max(weights, default=0),
        "argmax": scores.index(max(scores)) if seen else -1,
        "distance": distance,
        "normalized_distance": distance / mean if mean else 0,
        "self_weight": at.get(0, 0),
        "previous_weight": at.get(1, 0),
        "next_weight": at.get(-1, 0),
        "first_weight": sum(weights[:1]),
        "output_norm": math.sqrt(math.fsum(x * x for x in output)),
        "visible_count": len(seen),
        "visible_distance": sum(far[j] for j in seen),
    }


@pytest.mark.parametrize("offset", [-2, 0, 3, 100])
def test_statistics_by_hand(rng: np.random.Generator, offset: int) -> None:
    query, key, value = (rng.normal(size=(n, 4)) for n in (5, 8, 8))
    mask = rng.random((5, 8)) < 0.6
    mask[1] = False
    got = reference.attention(query, key, value, mask, query_offset=offset)
    for i in range(5):
        want = statistics_by_hand(
            got.weights[i].tolist(), got.scores[i].tolist(), value.tolist(), offset, i
        )
        for name, number in want.items():
            assert getattr(got, name)[i] == pytest.approx(number, rel=1e-12, abs=1e-14), name
        assert got.first_weights(3)[i] == pytest.approx(sum(got.weights[i, :3].tolist()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "longdouble"])
def test_everything_is_of_the_precision_asked_for(rng: np.random.Generator, dtype: str) -> None:
    inputs = draw(rng, (2, 2), (4, 6), dtype=np.float32)
    got = reference.attention(*inputs, causal(), bias=np.ones((4, 6)), query_offset=1, dtype=dtype)
    for part in (got.scores, got.weights, got.lse, got.output):
        assert part.dtype == np.dtype(dtype)


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_is_not_visible_never_reaches_an_output(
    rng: np.random.Generator, strange: float
) -> None:
    query, key, value = draw(rng, (2, 2), (4, 6))
    mask = np.arange(6) < 4
    want = reference.attention(query, key[..., :4, :], value[..., :4, :]).output
    key[..., 4:, :] = value[..., 4:, :] = strange
    got = reference.attention(query, key, value, mask[None]).output
    np.testing.assert_allclose(got, want, atol=1e-15)


def test_no_keys_and_rows_that_see_none() -> None:
    empty = reference.attention(np.ones((3, 4)), np.ones((0, 4)), np.ones((0, 2)))
    masked = reference.attention(*np.ones((3, 3, 2)), np.zeros((3, 3), bool))
    for got in (empty, masked):
        assert got.output.shape == (3, 2)
        assert not got.output.any()
        assert np.all(np.isneginf(got.lse))
        assert np.all(got.argmax == -1)
        for statistic in (got.entropy, got.max_weight, got.visible_count):
            assert not statistic.any()


@pytest.mark.parametrize(
    ("query", "key", "output"),
    [
        ((3, 4), (2, 1, 5, 4), (2, 1, 3, 4)),
        ((6, 3, 4), (7, 3, 5, 4), (7, 6, 3, 4)),
        ((2, 6, 3, 4), (5, 4), (2, 6, 3, 4)),
        ((2, 2, 3, 4), (2, 2, 0, 4), (2, 2, 3, 4)),
        ((2, 2, 0, 4), (2, 2, 5, 4), (2, 2, 0, 4)),
        ((2, 0, 3, 4), (2, 0, 5, 4), (2, 0, 3, 4)),
    ],
)
def test_shapes(query: Any, key: Any, output: Any) -> None:
    got = reference.attention(np.ones(query), np.ones(key), np.ones(key))
    assert got.output.shape == output


def test_inputs_are_not_changed(rng: np.random.Generator) -> None:
    inputs = draw(rng, (2, 2), (4, 6))
    copies = [x.copy() for x in inputs]
    reference.attention(*inputs, bias=np.zeros((4, 6)))
    assert all(np.array_equal(x, c) for x, c in zip(inputs, copies, strict=True))
