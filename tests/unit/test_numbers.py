"""Numbers among the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise._numbers import finite_number, whole_number
from tests.support import refuses


@pytest.mark.parametrize("x", [0, 7, np.int8(7), np.uint64(7), np.array(7)])
def test_whole_numbers(x: Any) -> None:
    assert whole_number("n", x) == int(x)
    assert type(whole_number("n", x)) is int


@pytest.mark.parametrize("x", [True, np.True_, 1.0, "1", None, [1], np.ones(2, int)])
def test_what_is_no_whole_number(x: Any) -> None:
    with refuses(TypeError, "n must be a whole number", "got"):
        whole_number("n", x)


def test_the_least_number() -> None:
    assert whole_number("n", 1, least=1) == 1
    assert whole_number("n", -5, least=None) == -5
    with refuses(ValueError, "n must be at least 1, got 0"):
        whole_number("n", 0, least=1)
    with refuses(ValueError, "n must be at least 0, got -1"):
        whole_number("n", -1)


@pytest.mark.parametrize("x", [0, -1.5, np.float32(0.5), np.array(2.0)])
def test_finite_numbers(x: Any) -> None:
    assert finite_number("x", x) == float(x)
    assert type(finite_number("x", x)) is float


@pytest.mark.parametrize("x", [True, "1", b"1", None, 1j, [1.0, 2.0]])
def test_what_is_no_number(x: Any) -> None:
    with refuses(TypeError, "x must be a number or None (off), got"):
        finite_number("x", x, " or None (off)")


@pytest.mark.parametrize(
    "x", [np.nan, np.inf, -np.inf, 10**400], ids=["nan", "inf", "-inf", "huge"]
)
def test_what_is_not_finite(x: float) -> None:
    with refuses(ValueError, "x must be finite, got"):
        finite_number("x", x)
