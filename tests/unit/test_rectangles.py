"""Exact weights of any rectangle: what an index expression picks, and how it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, reference
from headwise._rectangles import _runs
from tests.support import draw, refuses, same_bits, ulp

INDICES = [
    None, 0, 3, -1, np.int32(2), slice(1, 4), slice(None), slice(None, None, -1), slice(0, 0),
    slice(-3, None, 2), [0], [2, 0, 2], (1, 2), [0, 2, 3, 1], np.array([3, 1]), range(3),
    [-1, 0], [],
]  # fmt: skip


@pytest.fixture
def seen(rng: np.random.Generator) -> headwise.Observation:
    return headwise.observe(*draw(rng, (2, 4), (20, 20)), causal())


def picked(whole: Any, axis: int, index: Any) -> Any:
    """Pick along one axis as NumPy does."""
    if index is None:
        return whole
    places: list[Any] = [slice(None)] * whole.ndim
    places[axis] = np.asarray(index, int) if isinstance(index, list | tuple | range) else index
    return whole[tuple(places)]


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize(("name", "axis"), [("heads", -3), ("queries", -2), ("keys", -1)])
def test_indices_pick_as_in_numpy(
    seen: headwise.Observation, name: str, axis: int, index: Any
) -> None:
    assert same_bits(seen.weights(**{name: index}), picked(seen.weights(), axis, index))


def test_indices_of_all_three(seen: headwise.Observation) -> None:
    whole = seen.weights()
    assert same_bits(seen.weights(1, 2, 3), whole[:, 1, 2, 3])
    assert same_bits(seen.weights([1, 3], slice(4), -2), whole[:, [1, 3], :4, -2])
    assert same_bits(seen.weights(queries=5, keys=slice(2, 9)), whole[:, :, 5, 2:9])
    want = whole[:, :, [19, 0, 1]][..., [7, 3]]
    assert same_bits(seen.weights(queries=[19, 0, 1], keys=[7, 3]), want)


@pytest.mark.parametrize("lengths", [(1, 1), (3, 300), (20, 300), (300, 300), (40, 600)])
def test_weights_equal_the_oracles(
    rng: np.random.Generator, dtype: Any, lengths: tuple[int, int], instruction_set: str
) -> None:
    inputs = draw(rng, (2, 4), lengths, (9, 5), dtype=dtype, kv_heads=2)
    options = {
        "mask": causal() & (rng.random((2, 1, *lengths)) < 0.7),
        "bias": rng.normal(size=(4, *lengths)),
        "query_offset": "lower_right",
        "scale": -0.3,
    }
    seen, true = headwise.observe(*inputs, **options), reference.attention(*inputs, **options)
    np.testing.assert_allclose(seen.weights(), true.weights, atol=32 * ulp(dtype))
    part = seen.weights(heads=2, queries=slice(-9, None), keys=slice(-70, -1))
    np.testing.assert_allclose(part, true.weights[:, 2, -9:, -70:-1], atol=32 * ulp(dtype))


def test_a_rectangle_has_the_bits_of_the_whole(
    rng: np.random.Generator, dtype: Any, instruction_set: str
) -> None:
    inputs = draw(rng, (1, 2), (70, 600), (9, 5), dtype=dtype)
    seen = headwise.observe(*inputs, causal(), query_offset=500)
    whole = seen.weights()
    for queries, keys in [((0, 1), (0, 600)), ((33, 70), (255, 257)), ((69, 70), (599, 600))]:
        part = seen.weights(queries=slice(*queries), keys=slice(*keys))
        assert same_bits(part, whole[..., slice(*queries), slice(*keys)])


def test_weights_agree_with_the_row_statistics(
    rng: np.random.Generator, dtype: Any, queries: int, instruction_set: str
) -> None:
    seen = headwise.observe(*draw(rng, (2, 2), (queries, 90), dtype=dtype))
    weights, close = seen.weights(), {"rtol": 32 * ulp(dtype)}
    np.testing.assert_allclose(weights.max(axis=-1), seen.max_weight, **close)
    np.testing.assert_allclose(weights[..., 0], seen.first_weight, **close)
    assert np.array_equal(weights.argmax(axis=-1), seen.argmax)


def test_two_dimensions_have_no_heads(rng: np.random.Generator) -> None:
    seen = headwise.observe(*(rng.normal(size=(5, 4)) for _ in range(3)))
    assert seen.weights(queries=1).shape == (5,)
    with refuses(IndexError, "heads", "2 dimensions"):
        seen.weights(heads=0)


@pytest.mark.parametrize(("name", "size"), [("heads", 4), ("queries", 20), ("keys", 20)])
def test_boolean_arrays_pick_as_in_numpy(seen: headwise.Observation, name: str, size: int) -> None:
    picked = np.arange(size) % 3 == 1
    want = seen.weights(**{name: np.flatnonzero(picked)})
    assert same_bits(seen.weights(**{name: picked}), want)
    assert same_bits(seen.weights(**{name: picked.tolist()}), want)


@pytest.mark.parametrize("name", ["heads", "queries", "keys"])
@pytest.mark.parametrize("index", [20, -21, [0, 20], np.array([-21]), [True, False]], ids=repr)
def test_indices_outside_are_refused(seen: headwise.Observation, name: str, index: Any) -> None:
    with refuses(IndexError, name, "4" if name == "heads" else "20", "got"):
        seen.weights(**{name: index})


@pytest.mark.parametrize("name", ["heads", "queries", "keys"])
@pytest.mark.parametrize(
    "index", ["a", 1.5, [0.5], {}, True, [[0, 1]], [[0], [1, 2]], 2j], ids=repr
)
def test_what_is_no_index_is_refused(seen: headwise.Observation, name: str, index: Any) -> None:
    with refuses(TypeError, name, "index", "slice", "sequence", "None"):
        seen.weights(**{name: index})


@pytest.mark.parametrize(
    ("indices", "runs"),
    [
        ([], []),
        ([4], [(0, 1)]),
        ([1, 2, 3], [(0, 3)]),
        ([1, 2, 4, 3], [(0, 3), (3, 4)]),
        ([5, 5], [(0, 1), (1, 2)]),
        ([0, 64, 129], [(0, 2), (2, 3)]),
        ([3, 2, 1], [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_runs_of_close_indices(indices: list[int], runs: list[tuple[int, int]]) -> None:
    assert _runs(np.array(indices, int)) == [slice(*run) for run in runs]


def test_threads_change_no_bit_of_weights(rng: np.random.Generator, dtype: Any) -> None:
    inputs = draw(rng, (1, 1), (700, 300), (64, 8), dtype=dtype)
    one, two, three = (headwise.observe(*inputs, num_threads=n).weights() for n in (1, 2, 3))
    assert same_bits(one, two)
    assert same_bits(one, three)
