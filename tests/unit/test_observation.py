"""What an observation holds, and how it refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal
from headwise._deriving import derive
from headwise.statistics import STATISTICS, first_weight
from tests.support import draw, refuses, same_bits

POSITIONAL = {name for name, statistic in STATISTICS.items() if statistic.positional}


def observe(rng: np.random.Generator, lengths: Any = (4, 4), **options: Any) -> Any:
    return headwise.observe(*draw(rng, (2, 3), lengths, (8, 5)), **options)


def test_shapes_and_dtypes(rng: np.random.Generator, dtype: Any) -> None:
    inputs = draw(rng, (2, 6), (20, 9), (8, 5), dtype=dtype, kv_heads=2)
    seen = headwise.observe(*inputs, query_offset=0)
    assert seen.output.shape == (2, 6, 20, 5)
    assert seen.empty_rows.shape == (2, 6)
    counts = {"argmax", "visible_count", "visible_distance"}
    for name in ("lse", *STATISTICS):
        statistic = getattr(seen, name)
        assert statistic.shape == (2, 6, 20)
        assert statistic.dtype == (np.int64 if name in counts else dtype), name


@pytest.mark.parametrize(("lead", "rows"), [((), (4,)), ((3,), (3, 4)), ((2, 2, 3), (2, 2, 3, 4))])
def test_any_number_of_leading_dimensions(rng: np.random.Generator, lead: Any, rows: Any) -> None:
    query, key, value = (rng.normal(size=(*lead, n, 8)) for n in (4, 6, 6))
    seen = headwise.observe(query, key, value)
    assert seen.lse.shape == rows
    assert seen.empty_rows.shape == rows[:-1]
    assert seen.weights().shape == (*rows, 6)


def test_all_statistics_are_the_default(rng: np.random.Generator) -> None:
    assert observe(rng).statistics == tuple(STATISTICS)
    assert observe(rng, (3, 4), query_offset=1).statistics == tuple(STATISTICS)
    assert set(observe(rng, (3, 4)).statistics) == set(STATISTICS) - POSITIONAL


@pytest.mark.parametrize("name", STATISTICS)
def test_one_statistic_alone_is_the_same(rng: np.random.Generator, queries: int, name: str) -> None:
    inputs = draw(rng, (2, 3), (queries, 30))
    together = headwise.observe(*inputs, causal(), query_offset=9)
    for way in (name, (name,), [STATISTICS[name]], iter([name]), STATISTICS[name]):
        alone = headwise.observe(*inputs, causal(), query_offset=9, statistics=way)
        assert alone.statistics == (name,)
        assert same_bits(getattr(alone, name), getattr(together, name))
        assert same_bits(alone.lse, together.lse)


def test_no_statistic_at_all(rng: np.random.Generator) -> None:
    seen = observe(rng, statistics=())
    assert seen.statistics == ()
    np.testing.assert_allclose(seen.weights().sum(axis=-1), 1)


@pytest.mark.parametrize("name", sorted(POSITIONAL))
def test_a_statistic_of_unknown_positions_is_refused(rng: np.random.Generator, name: str) -> None:
    words = (name, "positions", "query_len 3", "kv_len 4", "query_offset=")
    with refuses(ValueError, *words):
        observe(rng, (3, 4), statistics=name)
    with pytest.raises(AttributeError, match=f"{name}.*query_offset="):
        getattr(observe(rng, (3, 4)), name)


def test_a_statistic_that_was_not_asked_for_is_refused(rng: np.random.Generator) -> None:
    seen = observe(rng, statistics="entropy")
    with pytest.raises(AttributeError, match=r"distance was not observed.*statistics="):
        seen.distance  # noqa: B018 - the access is what fails
    with pytest.raises(AttributeError, match="no 'entropie'"):
        seen.entropie  # noqa: B018
    assert not hasattr(seen, "_unknown")


@pytest.mark.parametrize(
    ("statistics", "kind", "words"),
    [
        ("entropie", ValueError, ("'entropie'", "entropy", "visible_distance")),
        (("entropy", "p"), ValueError, ("'p'", "entropy")),
        ("lse", ValueError, ("'lse'", "every observation", "leave it out")),
        ([3], TypeError, ("names", "int")),
        ([first_weight], TypeError, ("names", "function")),
        (5, TypeError, ("names", "int")),
        (True, TypeError, ("names", "bool")),
    ],
)
def test_what_is_no_statistic_is_refused(
    rng: np.random.Generator, statistics: Any, kind: type[Exception], words: tuple[str, ...]
) -> None:
    with refuses(kind, "statistics", *words):
        observe(rng, statistics=statistics)


def test_two_sums_of_first_weights_are_not_silently_one(rng: np.random.Generator) -> None:
    with refuses(ValueError, "first_weight"):
        observe(rng, statistics=[first_weight(1), first_weight(2)])


def test_what_it_shows_of_itself(rng: np.random.Generator) -> None:
    seen = observe(rng, statistics=("entropy", "argmax"))
    text = repr(seen)
    for word in ("Observation", "(2, 3, 4, 5)", "float64", "lse", "entropy", "argmax"):
        assert word in text
    assert {"output", "lse", "empty_rows", "weights", "entropy", "argmax"} <= set(dir(seen))
    assert "distance" not in dir(seen)


def test_copies_and_pickles(rng: np.random.Generator) -> None:
    seen = observe(rng, mask=causal())
    for other in (copy.copy(seen), copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):
        assert same_bits(other.entropy, seen.entropy)
        assert same_bits(other.weights(), seen.weights())
        assert other.statistics == seen.statistics


def test_rows_that_see_nothing_are_counted(rng: np.random.Generator, queries: int) -> None:
    inputs = draw(rng, (2, 3), (queries, 5))
    seen = headwise.observe(*inputs, causal(), query_offset=-2)
    assert np.all(seen.empty_rows == 2)
    assert headwise.observe(*inputs).empty_rows.sum() == 0


def test_normalised_statistics_where_there_is_nothing_to_compare_with() -> None:
    rows = {
        "entropy": np.array([0.0, 0.0, 0.5, np.nan], np.float32),
        "distance": np.array([0.0, 0.0, 3.0, np.nan], np.float32),
        "visible_count": np.array([0, 1, 4, 4]),
        "visible_distance": np.array([0, 0, 6, 6]),
    }
    entropy, distance = (
        derive(name, rows, None) for name in ("normalized_entropy", "normalized_distance")
    )
    np.testing.assert_allclose(entropy, [0, 0, 0.5 / np.log(4), np.nan], rtol=1e-6)
    np.testing.assert_allclose(distance, [0, 0, 2, np.nan])
    assert entropy.dtype == distance.dtype == np.float32


def test_positional_options_come_after_the_mask(rng: np.random.Generator) -> None:
    with pytest.raises(TypeError, match="positional"):
        headwise.observe(*draw(rng), None, "entropy")  # type: ignore[misc]
