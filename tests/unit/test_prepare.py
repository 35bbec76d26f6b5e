"""Shapes, dtypes, positions and settings: what is accepted, and how the rest is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headwise import causal, reference
from tests.support import draw, error, refuses, same_bits

Shape = tuple[int, ...]


def zeros(*shapes: Shape) -> list[Any]:
    return [np.zeros(shape) for shape in shapes]


REFUSED_SHAPES: dict[str, tuple[list[Shape], tuple[str, ...]]] = {
    "query of rank 1": ([(4,), (5, 4), (5, 4)], ("query", "at least 2", "head_dim", "(4,)")),
    "key of rank 1": ([(3, 4), (4,), (5, 4)], ("key", "at least 2", "kv_len", "(4,)")),
    "value of rank 0": ([(3, 4), (5, 4), ()], ("value", "at least 2", "value_dim", "()")),
    "head_dim": ([(3, 4), (5, 6), (5, 4)], ("query and key", "head_dim", "4 and 6", "(5, 6)")),
    "kv_len": ([(3, 4), (5, 4), (6, 4)], ("key and value", "kv_len", "5 and 6", "(6, 4)")),
    "batch": (
        [(2, 1, 3, 4), (3, 1, 5, 4), (3, 1, 5, 4)],
        ("leading dimensions", "broadcast", "(2, 1, 3, 4)", "(3, 1, 5, 4)"),
    ),
    "heads of value": (
        [(1, 4, 3, 4), (1, 2, 5, 4), (1, 4, 5, 4)],
        ("key and value", "number of heads", "2 and 4", "(1, 2, 5, 4)"),
    ),
    "heads with a remainder": (
        [(1, 4, 3, 4), (1, 3, 5, 4), (1, 3, 5, 4)],
        ("num_heads", "multiple of num_kv_heads", "4 and 3", "(1, 4, 3, 4)"),
    ),
    "fewer heads than key": (
        [(1, 1, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)], ("multiple of num_kv_heads", "1 and 2"),
    ),
    "no heads of key": (
        [(1, 2, 3, 4), (1, 0, 5, 4), (1, 0, 5, 4)], ("multiple of num_kv_heads", "2 and 0"),
    ),
    "three dimensions do not group": (
        [(4, 3, 4), (2, 5, 4), (2, 5, 4)], ("(4, 3, 4)", "(2, 5, 4)"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED_SHAPES)
def test_shapes_that_do_not_fit_are_refused(what: str, attend: Any) -> None:
    shapes, words = REFUSED_SHAPES[what]
    with refuses(ValueError, *words):
        attend(*zeros(*shapes))


@pytest.mark.parametrize(
    ("query", "key", "output"),
    [
        ((3, 4), (5, 4), (3, 4)),
        ((2, 3, 4), (2, 5, 4), (2, 3, 4)),
        ((1, 3, 4), (2, 5, 4), (2, 3, 4)),
        ((2, 3, 4), (1, 5, 4), (2, 3, 4)),
        ((2, 3, 4), (5, 4), (2, 3, 4)),
        ((3, 4), (2, 5, 4), (2, 3, 4)),
        ((2, 6, 3, 4), (2, 3, 5, 4), (2, 6, 3, 4)),
        ((2, 6, 3, 4), (1, 2, 5, 4), (2, 6, 3, 4)),
        ((1, 6, 3, 4), (7, 1, 5, 4), (7, 6, 3, 4)),
        ((6, 3, 4), (7, 3, 5, 4), (7, 6, 3, 4)),
        ((7, 6, 3, 4), (2, 5, 4), (7, 6, 3, 4)),
        ((7, 6, 3, 4), (5, 4), (7, 6, 3, 4)),
        ((3, 4), (2, 1, 5, 4), (2, 1, 3, 4)),
        ((2, 1, 6, 3, 4), (3, 2, 5, 4), (2, 3, 6, 3, 4)),
        ((2, 1, 2, 2, 3, 4), (1, 3, 2, 1, 5, 4), (2, 3, 2, 2, 3, 4)),
    ],
)
def test_leading_dimensions_broadcast(
    rng: np.random.Generator, query: Shape, key: Shape, output: Shape, attend: Any
) -> None:
    inputs = [rng.normal(size=shape) for shape in (query, key, key)]
    got = attend(*inputs)
    assert got.shape == output
    assert error(got, reference.attention(*inputs).output) < 1e-14


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("float32", "float64"),
        ("float64", "float32"),
        ("float64", "float16"),
        ("float16", "float32"),
        ("float16", "float64"),
        ("float16", "bfloat16"),
        ("bfloat16", "float16"),
    ],
)
def test_another_dtype_than_the_querys_is_refused(
    name: str, query: str, other: str, attend: Any
) -> None:
    one, another = (np.ones((3, 4), getattr(ml_dtypes, d, d)) for d in (query, other))
    given = dict.fromkeys(("query", "key", "value"), one)
    with refuses(TypeError, f"{name} is {other}", f"query is {query}", "convert"):
        attend(**given | {name: another})


@pytest.mark.parametrize(
    ("bias", "kind", "words"),
    [
        (np.ones((3, 5), bool), TypeError, ("bool", "floating point", "mask=")),
        (np.ones((3, 5), int), TypeError, ("int64", "floating point", "convert")),
        (np.ones((3, 5), complex), TypeError, ("complex128", "floating point")),
        (np.ones(4), ValueError, ("broadcast", "(3, 5)", "(4,)")),
        (np.float64(1), ValueError, ("1 dimension", "kv_len", "1.0")),
    ],
)
def test_what_is_no_bias_is_refused(
    bias: Any, kind: type[Exception], words: tuple[str, ...], attend: Any
) -> None:
    with refuses(kind, "bias", *words):
        attend(*zeros((3, 4), (5, 4), (5, 4)), bias=bias)


@pytest.mark.parametrize("name", ["mask", "bias"])
@pytest.mark.parametrize(
    "shape", [(3, 4), (2, 5), (1, 4), (5, 3), (2, 3, 5), (3, 1, 3, 5), (1, 1, 1, 3, 5)]
)
def test_what_does_not_broadcast_to_the_scores_is_refused(
    name: str, shape: Shape, attend: Any
) -> None:
    array = np.ones(shape, bool) if name == "mask" else np.ones(shape)
    with refuses(ValueError, name, "num_heads, query_len, kv_len", "(2, 6, 3, 5)", str(shape)):
        attend(*zeros((2, 6, 3, 4), (2, 6, 5, 4), (2, 6, 5, 4)), **{name: array})


def test_a_float_mask_is_called_a_mask_and_not_a_bias(attend: Any) -> None:
    inputs = zeros((3, 4), (5, 4), (5, 4))
    with refuses(ValueError, "mask must broadcast", "(3, 5)", "(2, 5)"):
        attend(*inputs, np.full((2, 5), 0.5))
    with refuses(ValueError, "mask", "(3, 5)", "(2, 5)"):
        attend(*inputs, np.full((2, 5), 0.5), bias=np.zeros((3, 5)))
    with refuses(ValueError, "bias", "(3, 5)", "(2, 5)"):
        attend(*inputs, np.full((3, 5), 0.5), bias=np.zeros((2, 5)))


def test_the_hint_for_one_bias_per_batch_item(attend: Any) -> None:
    inputs = zeros(*[(2, 6, 5, 4)] * 3)
    with refuses(ValueError, "bias", "(2, 1, 5, 5)", "bias[..., None, :, :]"):
        attend(*inputs, bias=np.zeros((2, 5, 5)))
    with refuses(ValueError, "mask", "(2, 6, 5, 5)", "(2, 5)", "mask[..., None, None, :]"):
        attend(*inputs, np.ones((2, 5), bool))


@pytest.mark.parametrize(
    ("offset", "kind", "words"),
    [
        ("lower_left", ValueError, ('"upper_left"', '"lower_right"', "'lower_left'")),
        (1.0, TypeError, ("whole numbers", "float64")),
        (True, TypeError, ("whole numbers", "bool")),
        ([0.5, 1.0], TypeError, ("whole numbers", "float64")),
        ([0, 1, 2], ValueError, ("one number", "batch item", "(2,)", "(3,)")),
        ([[0], [1], [2]], ValueError, ("one number", "batch item", "(2,)", "(3, 1)")),
        (2**41, ValueError, ("2**40", str(2**41))),
        ([-(2**62), 0], ValueError, ("2**40",)),
        (2**70, ValueError, ("2**40", str(2**70))),
    ],
)
def test_what_is_no_offset_is_refused(
    offset: Any, kind: Any, words: tuple[str, ...], attend: Any
) -> None:
    inputs = zeros((2, 1, 3, 4), (2, 1, 5, 4), (2, 1, 5, 4))
    with refuses(kind, "query_offset", *words):
        attend(*inputs, causal(), query_offset=offset)


def test_an_offset_per_item_needs_batch_items(attend: Any) -> None:
    with refuses(ValueError, "query_offset", "one number", "batch item", "(2,)"):
        attend(*zeros(*[(2, 3, 4)] * 3), causal(), query_offset=[0, 1])


def test_the_missing_offset_is_explained(attend: Any) -> None:
    words = ("mask", "query_len 3", "kv_len 5", 'query_offset="lower_right"', "query 0 at key 2")
    with refuses(ValueError, *words, 'query_offset="upper_left"', "number"):
        attend(*zeros((3, 4), (5, 4), (5, 4)), causal())
    with refuses(ValueError, "query 0 at key -2"):
        attend(*zeros((5, 4), (3, 4), (3, 4)), causal())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, "upper_left"), (None, "lower_right"), (None, 0), (-1, np.int8(-1)), (3, 3),
        (5, np.array(5)), (1, [1, 1]), (2, np.full(2, 2, np.uint64)),
    ],
)  # fmt: skip
def test_ways_to_say_the_same_offset(
    rng: np.random.Generator, one: Any, other: Any, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (7, 7))
    first, second = (attend(*inputs, causal(), query_offset=offset) for offset in (one, other))
    assert same_bits(first, second)


@pytest.mark.parametrize("lengths", [(3, 8), (8, 3)])
def test_corners(rng: np.random.Generator, lengths: tuple[int, int], attend: Any) -> None:
    inputs = draw(rng, (2, 2), lengths)
    for corner, offset in (("upper_left", 0), ("lower_right", lengths[1] - lengths[0])):
        first, second = (attend(*inputs, causal(), query_offset=o) for o in (corner, offset))
        assert same_bits(first, second)


def test_far_offsets_see_everything_or_nothing(rng: np.random.Generator, attend: Any) -> None:
    inputs = draw(rng, (2, 2), (20, 9))
    assert same_bits(attend(*inputs, causal(), query_offset=2**40), attend(*inputs))
    assert not attend(*inputs, causal(), query_offset=-(2**40)).any()


@pytest.mark.parametrize(
    ("scale", "kind", "words"),
    [
        (np.nan, ValueError, ("finite", "nan")),
        (-np.inf, ValueError, ("finite", "inf")),
        pytest.param(10**400, ValueError, ("finite", "inf"), id="huge"),
        ("1", TypeError, ("number or None", "'1'")),
        (True, TypeError, ("number or None", "True")),
        (1j, TypeError, ("number or None", "1j")),
        (np.ones(2), TypeError, ("number or None", "array([1., 1.])")),
    ],
)
def test_what_is_no_scale_is_refused(
    scale: Any, kind: type[Exception], words: tuple[str, ...], attend: Any
) -> None:
    with refuses(kind, "scale", *words):
        attend(*zeros(*[(3, 4)] * 3), scale=scale)


@pytest.mark.parametrize("scale", [0.5, np.float32(0.5), np.float64(0.5)])
def test_the_default_scale(rng: np.random.Generator, scale: Any, attend: Any) -> None:
    inputs = draw(rng, (2, 2), (7, 9), (4, 8))
    assert same_bits(attend(*inputs), attend(*inputs, scale=scale))
    assert same_bits(attend(*inputs, scale=1), attend(*inputs, scale=np.int64(1)))
