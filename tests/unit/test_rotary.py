"""Rotary positions: complex numbers turned, in both layouts of pairs and both layouts of heads."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import headwise
from headwise import rotary_caches, rotary_embedding
from tests.support import Array, normal, refuses, same_bits

IDS = np.array([[3, 0, 7, 7, 1], [2, 9, 4, 0, 8]])  # batch 2, seq_len 5


def oracle(x: Array, angles: Array, *, interleaved: bool = False) -> Array:
    """Turn pairs as complex numbers: each times e^(i·angle). Angles broadcast to the pairs."""
    x = np.asarray(x, np.float64)
    half = angles.shape[-1]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (
        slice(half),
        slice(half, 2 * half),
    )  # fmt: skip
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angles)
    out = x.copy()
    out[..., first], out[..., second] = turned.real, turned.imag
    return out


def angles_of(ids: Array, dim: int, base: float = 10000.0) -> Array:
    """Return angles (batch, 1, seq_len, dim / 2)."""
    speeds = np.array([base ** (-2 * i / dim) for i in range(dim // 2)])
    return (ids[..., None] * speeds)[:, None]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [8, 4, 2, 0])
def test_pairs_turn_like_complex_numbers(
    rng: np.random.Generator, dim: int, interleaved: bool
) -> None:
    x = normal(rng, 2, 3, 5, 8)
    cos, sin = rotary_caches(10, dim)
    got = rotary_embedding(x, cos, sin, IDS, interleaved=interleaved, rotary_dim=dim)
    want = oracle(x, angles_of(IDS, dim), interleaved=interleaved)
    np.testing.assert_allclose(got, want, atol=1e-14)
    assert same_bits(got[..., dim:], x[..., dim:])


def test_a_quarter_turn() -> None:
    x = np.array([[[[1.0, 2.0, 3.0, 4.0]]]])
    cos, sin = np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]])
    assert rotary_embedding(x, cos, sin).tolist() == [[[[-3, 2, 1, 4]]]]
    assert rotary_embedding(x, cos, sin, interleaved=True).tolist() == [[[[-2, 1, 3, 4]]]]


@pytest.mark.parametrize("interleaved", [False, True])
def test_heads_side_by_side(rng: np.random.Generator, interleaved: bool) -> None:
    x = normal(rng, 2, 5, 24)
    cos, sin = rotary_caches(10, 6)
    got = rotary_embedding(x, cos, sin, IDS, num_heads=3, rotary_dim=6, interleaved=interleaved)
    apart = headwise.split_heads(x, 3)
    want = rotary_embedding(apart, cos, sin, IDS, rotary_dim=6, interleaved=interleaved)
    assert same_bits(got, headwise.combine_heads(want))
    named = rotary_embedding(apart, cos, sin, IDS, rotary_dim=6, num_heads=3)
    assert same_bits(named, rotary_embedding(apart, cos, sin, IDS, rotary_dim=6))


def test_tables_by_position_or_gathered(rng: np.random.Generator) -> None:
    x = normal(rng, 2, 3, 5, 8)
    cos, sin = rotary_caches(10, 8)
    want = rotary_embedding(x, cos, sin, IDS)
    assert same_bits(rotary_embedding(x, cos[IDS], sin[IDS]), want)
    for ids in (IDS[0], IDS[:1]):
        both = rotary_embedding(x, cos, sin, ids)
        assert same_bits(both, rotary_embedding(x, cos, sin, np.stack([IDS[0]] * 2)))
        assert same_bits(both, rotary_embedding(x, cos[ids], sin[ids]))


def test_scores_depend_on_distance_alone(rng: np.random.Generator) -> None:
    query, key = normal(rng, 1, 1, 1, 16), normal(rng, 1, 1, 1, 16)
    cos, sin = rotary_caches(2000, 16)

    def score(i: int, j: int) -> float:
        q = rotary_embedding(query, cos, sin, [[i]])
        return float(np.sum(q * rotary_embedding(key, cos, sin, [[j]])))

    assert score(5, 2) == pytest.approx(score(1700, 1697), abs=1e-12)
    assert score(5, 2) != pytest.approx(score(5, 3), abs=1e-3)


def test_caches_are_right_far_out() -> None:
    cos, sin = rotary_caches(2**20, 2, dtype=np.float32)
    assert cos.dtype == sin.dtype == np.float32
    for p in (1, 1000, 2**20 - 1):
        assert cos[p, 0] == np.float32(math.cos(p))
        assert sin[p, 0] == np.float32(math.sin(p))
    wide = rotary_caches(3, 4, 500000.0)
    np.testing.assert_allclose(wide[1][2], [math.sin(2), math.sin(2 / 500000**0.5)], rtol=1e-15)
    assert rotary_caches(0, 4)[0].shape == (0, 2)
    assert rotary_caches(3, 0)[0].shape == (3, 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
@pytest.mark.parametrize("interleaved", [False, True])
def test_short_floats_are_turned_in_float32(
    rng: np.random.Generator, dtype: Any, interleaved: bool
) -> None:
    x = normal(rng, 2, 3, 5, 8).astype(dtype)
    cos, sin = rotary_caches(10, 8)
    got = rotary_embedding(x, cos, sin, IDS, interleaved=interleaved)
    want = oracle(x.astype(np.float64), angles_of(IDS, 8), interleaved=interleaved)
    assert got.dtype == x.dtype
    unit = float(ml_dtypes.finfo(dtype).eps)
    error = abs(got.astype(np.float64) - want) - unit / 2 * abs(want)
    assert error.max() <= 8 * np.finfo(np.float32).eps


def test_torch_tensors_come_back_as_such(rng: np.random.Generator) -> None:
    x = normal(rng, 2, 3, 5, 8, dtype=np.float32)
    cos, sin = rotary_caches(10, 8, dtype=np.float32)
    want = rotary_embedding(x, cos, sin, IDS)
    tensors = [torch.from_numpy(a) for a in (x, cos, sin, IDS)]
    got = rotary_embedding(*tensors)
    assert isinstance(got, torch.Tensor)
    assert same_bits(got.numpy(), want)
    short = rotary_embedding(tensors[0].to(torch.bfloat16), *tensors[1:])
    assert short.dtype == torch.bfloat16
    np.testing.assert_allclose(short.to(torch.float32).numpy(), want, atol=0.05)


def test_inputs_are_not_changed_and_may_lie_anyhow(rng: np.random.Generator) -> None:
    x = normal(rng, 2, 5, 3, 8)
    before = x.copy()
    cos, sin = rotary_caches(10, 8)
    x.flags.writeable = cos.flags.writeable = False
    got = rotary_embedding(x.swapaxes(1, 2), cos, sin, IDS)
    want = rotary_embedding(np.ascontiguousarray(x.swapaxes(1, 2)), cos, sin, IDS)
    assert same_bits(got, want)
    assert same_bits(x, before)
    swapped = x.swapaxes(1, 2).astype(">f8")
    assert same_bits(rotary_embedding(swapped, cos, sin, IDS), want)


def test_what_is_not_finite_stays_in_its_pair() -> None:
    x = np.ones((1, 1, 1, 8), np.float16)
    x[..., :2], x[..., 4:6], x[..., 7] = np.inf, 65504, 65504
    cos, sin = np.full((1, 3), 0.8), np.full((1, 3), 0.6)
    got = rotary_embedding(x, cos, sin, rotary_dim=6, interleaved=True)[0, 0, 0]
    assert np.isnan(got[0])
    assert got[1] == np.inf
    assert got[2:4].tolist() == [np.float16(0.2), np.float16(1.4)]
    assert got[4:].tolist() == [np.float16(0.2 * 65504), np.inf, 1, 65504]


def test_empty_inputs() -> None:
    cos, sin = rotary_caches(10, 8)
    assert rotary_embedding(np.ones((2, 3, 0, 8)), cos, sin, np.zeros((2, 0), int)).size == 0
    assert rotary_embedding(np.ones((0, 3, 4, 8)), cos[:4], sin[:4]).shape == (0, 3, 4, 8)


X, COS, SIN = np.ones((2, 3, 5, 8)), *rotary_caches(10, 8)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((X[0], COS, SIN, IDS), {}, ("x", "num_heads=", "(3, 5, 8)")),
        ((np.ones((2, 5, 24)), COS, SIN, IDS), {"num_heads": 5}, ("num_heads", "24")),
        ((X, COS, SIN, IDS), {"num_heads": 4}, ("num_heads", "3", "4")),
        ((X, COS, SIN), {}, ("cos", "(2, 5, 4)", "without position_ids", "(10, 4)")),
        ((X, COS[:5], SIN), {}, ("sin", "(10, 4)")),
        ((X, COS[IDS], SIN[IDS], IDS), {}, ("cos", "(length, 4)", "(2, 5, 4)")),
        ((X, COS, SIN, IDS), {"rotary_dim": 4}, ("cos", "(length, 2)", "(10, 4)")),
        ((X, COS, SIN, IDS), {"rotary_dim": 10}, ("rotary_dim", "head_dim 8", "10")),
        ((X, COS, SIN, IDS), {"rotary_dim": 5}, ("rotary_dim", "even", "5")),
        ((X[..., :7], COS, SIN, IDS), {}, ("head_dim", "even", "7")),
        ((X, COS, SIN, IDS - 1), {}, ("position_ids", "-1 to 8", "10")),
        ((X, COS, SIN, IDS + 1), {}, ("position_ids", "10", "rotary_caches")),
        ((X, COS, SIN, IDS.T), {}, ("position_ids", "(2, 5)", "(5, 2)")),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], words: tuple[str, ...]
) -> None:
    with refuses(ValueError, *words):
        rotary_embedding(*arguments, **options)


def test_other_types_are_refused() -> None:
    with refuses(TypeError, "position_ids", "float64"):
        rotary_embedding(X, COS, SIN, IDS / 1)
    with refuses(TypeError, "interleaved", "2"):
        rotary_embedding(X, COS, SIN, IDS, interleaved=2)  # type: ignore[arg-type]
    with refuses(TypeError, "x", "complex128"):
        rotary_embedding(X * 1j, COS, SIN, IDS)
    with refuses(TypeError, "rotary_dim", "2.0"):
        rotary_embedding(X, COS, SIN, IDS, rotary_dim=2.0)  # type: ignore[arg-type]
    with refuses(TypeError, "cos", "str"):
        rotary_embedding(X, "cos", SIN, IDS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((-1, 4), ("length", "-1")),
        ((3, 5), ("dim", "even", "5")),
        ((3, 4, 0.0), ("base", "greater than 0", "0.0")),
        ((3, 4, math.inf), ("base", "inf")),
        ((2.5, 4), ("length", "2.5")),
        ((True, 4), ("length", "True")),
        ((3, 4, "10000"), ("base", "'10000'")),
    ],
)
def test_other_caches_are_refused(arguments: Any, words: tuple[str, ...]) -> None:
    with refuses((TypeError, ValueError), *words):
        rotary_caches(*arguments)
    with refuses(TypeError, "dtype", "int64"):
        rotary_caches(3, 4, dtype=np.int64)
