"""The exponential that all weights come from, and the tangent of caps: errors in last places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import _binding
from tests.support import ulp

# Without fused multiply-add an error is a little larger; the header states the measured ones.
BOUNDS = {
    "avx512": {"float32": 0.85, "float64": 1.02},
    "avx2": {"float32": 0.85, "float64": 0.95},
    "neon": {"float32": 0.85, "float64": 0.95},
    "baseline": {"float32": 0.9, "float64": 0.95},
    "scalar": {"float32": 0.9, "float64": 0.95},
}


def exp2(x: Any, instruction_set: str) -> Any:
    return apply("exp2", x, instruction_set)


def apply(name: str, x: Any, instruction_set: str) -> Any:
    """Compute with the kernels' own function, in whole vectors."""
    padded = np.zeros(-(-x.size // 64) * 64, x.dtype)
    padded[: x.size] = x
    result = np.empty_like(padded)
    _binding.apply(name, padded, result, instruction_set)
    return result[: x.size]


def grid(rng: np.random.Generator, dtype: Any) -> Any:
    """Return a dense grid from -126 to 0, denser near 0 and near whole and half numbers."""
    even = np.linspace(-126, 0, 1 << 20)
    near = -np.exp(rng.uniform(np.log(1e-9), np.log(126), 1 << 19))
    halves = np.arange(-252, 1) / 2
    steps = np.arange(-64, 65) * ulp(dtype)
    close = (halves[:, None] * (1 + steps)).ravel()
    x = np.concatenate([even, near, close]).astype(dtype)
    return x[x >= -126]


def test_the_error_is_below_its_bound(
    rng: np.random.Generator, dtype: Any, instruction_set: str
) -> None:
    x = grid(rng, dtype)
    wider = np.float64 if dtype == np.float32 else np.longdouble
    true = np.exp2(x.astype(wider))
    last_place = np.spacing(true.astype(dtype)).astype(wider)
    errors = abs(exp2(x, instruction_set) - true) / last_place
    assert errors.max() < BOUNDS[instruction_set][dtype.name]


def test_whole_powers_are_exact(dtype: Any, instruction_set: str) -> None:
    x = np.arange(-126, 1).astype(dtype)
    assert np.array_equal(exp2(x, instruction_set), np.exp2(x))
    assert exp2(np.zeros(1, dtype), instruction_set)[0] == 1
    assert exp2(-np.zeros(1, dtype), instruction_set)[0] == 1


def test_it_never_rises_above_1_nor_falls_below_0(
    rng: np.random.Generator, dtype: Any, instruction_set: str
) -> None:
    y = exp2(-np.exp(rng.uniform(-40, 10, 1 << 16)).astype(dtype), instruction_set)
    assert y.min() >= 0
    assert y.max() <= 1


def test_what_lies_below_the_range_becomes_0(dtype: Any, instruction_set: str) -> None:
    lowest = -127 if dtype == np.float32 else -1023
    x = np.array([lowest, 2 * lowest, -1e30, np.finfo(dtype).min, -np.inf], dtype)
    assert not exp2(x, instruction_set).any()


@pytest.mark.parametrize("place", [0, 1, 7, 31, 63])
def test_nan_stays_nan_and_in_its_place(dtype: Any, instruction_set: str, place: int) -> None:
    x = np.zeros(64, dtype)
    x[place] = np.nan
    y = exp2(x, instruction_set)
    assert np.isnan(y[place])
    assert np.all(np.delete(y, place) == 1)


def test_only_whole_vectors_are_taken(dtype: Any, instruction_set: str) -> None:
    x = np.zeros(65, dtype)
    with pytest.raises(ValueError, match="multiple of 64"):
        _binding.apply("exp2", x, x.copy(), instruction_set)


def test_the_error_of_tanh(rng: np.random.Generator, dtype: Any, instruction_set: str) -> None:
    sizes = np.exp(rng.uniform(np.log(np.finfo(dtype).tiny), np.log(50), 1 << 19))
    x = np.concatenate([sizes, -sizes, np.linspace(-12, 12, 1 << 18)]).astype(dtype)
    wider = np.float64 if dtype == np.float32 else np.longdouble
    true = np.tanh(x.astype(wider))
    errors = abs(apply("tanh", x, instruction_set) - true) / np.spacing(abs(true).astype(dtype))
    assert errors.max() < 4


def test_tanh_at_the_ends(dtype: Any, instruction_set: str) -> None:
    x = np.array([0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, 1e-30], dtype)
    want = np.array([0, 1, -1, np.nan, 1, 1e-30], dtype)
    np.testing.assert_allclose(apply("tanh", x, instruction_set), want, rtol=4 * ulp(dtype))
