"""The table of statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import _binding, reference
from headwise.statistics import STATISTICS, Statistic, first_weight, resolve
from tests.support import refuses


def test_every_statistic_is_described() -> None:
    for name, statistic in STATISTICS.items():
        assert statistic.name == name
        assert statistic.formula
        assert statistic.meaning
        assert statistic.unit


def test_every_statistic_comes_from_the_kernel() -> None:
    sources = {source for statistic in STATISTICS.values() for source in statistic.sources}
    assert sources <= set(_binding.STATISTICS)
    assert set(_binding.STATISTICS) - sources == {
        "lse",
        "row_maximum",
        "row_total",
        "top_bound",
        "computed_keys",
    }


def test_the_oracle_has_every_statistic() -> None:
    seen = reference.attention(*np.ones((3, 4, 2)))
    assert all(np.shape(getattr(seen, name)) == (4,) for name in STATISTICS)


def test_positional_statistics_are_those_of_positions() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    one, other = (reference.attention(*x, query_offset=offset) for offset in (0, 1))
    for name, statistic in STATISTICS.items():
        same = np.array_equal(getattr(one, name), getattr(other, name))
        assert same != statistic.positional, name


@pytest.mark.parametrize("k", [1, 4, np.int64(4)])
def test_first_weight(k: Any) -> None:
    statistic = first_weight(k)
    assert statistic.first_keys == k
    assert statistic.name == "first_weight"
    assert STATISTICS["first_weight"].first_keys == 1


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "1", None])
def test_what_is_no_number_of_keys_is_refused(k: Any) -> None:
    kind, words = (ValueError, "at least 1") if k in {0, -1} else (TypeError, "whole number")
    with refuses(kind, "k must", words, repr(k)):
        first_weight(k)


def test_statistics_are_resolved_in_order_and_once() -> None:
    names = ("distance", "entropy", STATISTICS["argmax"], "distance")
    assert [s.name for s in resolve(names)] == ["distance", "entropy", "argmax"]
    assert resolve("entropy") == [STATISTICS["entropy"]]
    assert resolve([]) == []


def test_statistics_are_values() -> None:
    assert first_weight(1) == STATISTICS["first_weight"]
    assert first_weight(2) != STATISTICS["first_weight"]
    with pytest.raises(AttributeError):
        STATISTICS["entropy"].name = "other"  # type: ignore[misc]
    assert isinstance(hash(STATISTICS["entropy"]), int)
    assert isinstance(STATISTICS["entropy"], Statistic)
