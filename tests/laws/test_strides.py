"""Memory of every layout is read as it is: same bits, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import scaled_dot_product_attention
from tests.support import INSTRUCTION_SETS, draw, forced, normal, same_bits

Array = Any


def transposed(x: Array) -> Array:
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


def heads_inside(x: Array) -> Array:
    """Lay out as `split_heads` does: heads between rows and columns."""
    return np.ascontiguousarray(x.swapaxes(-3, -2)).swapaxes(-3, -2)


def every_other_column(x: Array) -> Array:
    return np.repeat(x, 2, axis=-1)[..., ::2]


def every_third_row(x: Array) -> Array:
    return np.repeat(x, 3, axis=-2)[..., ::3, :]


def columns_backwards(x: Array) -> Array:
    return x[..., ::-1].copy()[..., ::-1]


def all_backwards(x: Array) -> Array:
    return np.flip(np.flip(x).copy())


def unaligned(x: Array) -> Array:
    raw = np.empty(x.nbytes + 1, np.uint8)
    shifted: Array = np.ndarray(x.shape, x.dtype, buffer=raw, offset=1)
    shifted[...] = x
    return shifted


def packed(x: Array) -> Array:
    """Return a field of packed structures: a stride that is no multiple of the item size."""
    structures = np.zeros(x.shape, np.dtype([("pad", "u1"), ("x", x.dtype)]))
    structures["x"] = x
    return structures["x"]


def byte_swapped(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder())


def swapped_unaligned_backwards(x: Array) -> Array:
    return packed(byte_swapped(columns_backwards(x)))


def read_only(x: Array) -> Array:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def fortran(x: Array) -> Array:
    return np.asfortranarray(x)


def rows_2048_bytes_apart(x: Array) -> Array:
    wide = np.full((*x.shape[:-1], 2048 // x.itemsize), np.nan if x.dtype.kind == "f" else True)
    wide = wide.astype(x.dtype)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


LAYOUTS: list[Callable[[Array], Array]] = [
    transposed, heads_inside, every_other_column, every_third_row, columns_backwards,
    all_backwards, unaligned, packed, byte_swapped, swapped_unaligned_backwards, read_only,
    fortran, rows_2048_bytes_apart,
]  # fmt: skip
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
NAMES = ("query", "key", "value", "mask", "bias")


def arguments(rng: np.random.Generator, dtype: Any, queries: int) -> dict[str, Array]:
    query, key, value = draw(rng, (2, 2), (queries, 37), (12, 9), dtype=dtype)
    mask = rng.random((2, 2, queries, 37)) < 0.8
    bias = normal(rng, 2, 2, queries, 37, dtype=dtype)
    return dict(zip(NAMES, (query, key, value, mask, bias), strict=True))


@pytest.mark.parametrize("name", NAMES)
@EVERY_LAYOUT
def test_every_layout_of_every_operand(
    *, rng: np.random.Generator, dtype: Any, queries: int, layout: Any, name: str, attend: Any
) -> None:
    given = arguments(rng, dtype, queries)
    laid_out = given | {name: layout(given[name])}
    before = laid_out[name].tobytes()
    assert np.array_equal(laid_out[name], given[name])
    for instruction_set in INSTRUCTION_SETS:
        with forced(instruction_set):
            assert same_bits(attend(**laid_out), attend(**given)), instruction_set
    assert laid_out[name].tobytes() == before


@EVERY_LAYOUT
def test_weights_of_every_layout(
    rng: np.random.Generator, dtype: Any, queries: int, layout: Any
) -> None:
    given = arguments(rng, dtype, queries)
    laid_out = {name: layout(x) for name, x in given.items()}
    want, got = (headwise.observe(**x).weights(keys=slice(5, 30)) for x in (given, laid_out))
    assert same_bits(got, want)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (2,), (3,), (2, 3)])
def test_broadcast_memory(
    *, rng: np.random.Generator, dtype: Any, queries: int, name: str, axes: Any, attend: Any
) -> None:
    given = arguments(rng, dtype, queries)
    whole = given[name]
    first = whole[tuple(slice(1) if axis in axes else slice(None) for axis in range(4))]
    repeated = np.broadcast_to(first, whole.shape)  # strides of 0
    want = attend(**given | {name: repeated.copy()})
    assert same_bits(attend(**given | {name: repeated}), want)
    if name in {"mask", "bias"}:
        assert same_bits(attend(**given | {name: first}), want)


@pytest.mark.parametrize("name", ["key", "value"])
@pytest.mark.parametrize("width", [64, 256, 512])
def test_rows_of_a_power_of_two_of_bytes(
    rng: np.random.Generator, dtype: Any, queries: int, name: str, width: int
) -> None:
    wide = dict(
        zip(NAMES, draw(rng, (1, 2), (queries, 300), (width,) * 2, dtype=dtype), strict=False)
    )
    apart = np.zeros((1, 2, 300, width + 3), dtype)
    apart[..., :width] = wide[name]
    for instruction_set in INSTRUCTION_SETS:
        with forced(instruction_set):
            got = scaled_dot_product_attention(**wide | {name: apart[..., :width]})
            assert same_bits(got, scaled_dot_product_attention(**wide))


@pytest.mark.parametrize(
    "layout",
    [transposed, heads_inside, every_third_row, all_backwards, unaligned, packed, fortran],
    ids=lambda layout: layout.__name__,
)
def test_every_layout_of_out(
    rng: np.random.Generator, dtype: Any, queries: int, layout: Any
) -> None:
    given = arguments(rng, dtype, queries)
    want = scaled_dot_product_attention(**given)
    out = layout(np.full(want.shape, 7, dtype))
    assert scaled_dot_product_attention(**given, out=out) is out
    assert same_bits(out, want)


def test_one_array_as_query_key_and_value(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    x = normal(rng, 2, 2, queries, 8, dtype=dtype)
    before = x.copy()
    assert same_bits(attend(x, x, x), attend(x, x.copy(), x.copy()))
    assert same_bits(x, before)
