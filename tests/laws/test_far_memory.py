"""Offsets beyond 2**31 and 2**32: rows a gibibyte apart, in memory of which little is touched."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import reference, window
from tests.support import draw, same_bits

GIB = 1 << 30
pytestmark = pytest.mark.usefixtures("instruction_set")


def far_apart(x: Any, axis: int) -> Any:
    """Lay ``x`` out with a gibibyte from one index to the next along an axis."""
    strides = list(x.strides)
    strides[axis] = GIB + x.nbytes
    with tempfile.TemporaryFile() as file:  # a sparse one: only what is written takes room
        file.truncate(x.shape[axis] * strides[axis] + x.nbytes)
        memory = mmap.mmap(file.fileno(), 0)
    far = np.ndarray(x.shape, x.dtype, buffer=memory, strides=tuple(strides))
    far[...] = x
    return far


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
@pytest.mark.parametrize("name", ["query", "key", "value", "bias", "out"])
def test_rows_a_gibibyte_apart(
    rng: np.random.Generator, name: str, axis: int, queries: int
) -> None:
    # The axis that is far apart has 6 places: offsets up to 5 GiB.
    sizes = {0: (6, 2), 1: (2, 6), 2: (2, 2)}[axis]
    lengths = (queries, queries) if axis < 2 else (6, 6)
    query, key, value = draw(rng, sizes, lengths, (9, 5), dtype=np.float32)
    given = {"query": query, "key": key, "value": value}
    given["bias"] = rng.normal(size=(*sizes, *lengths)).astype(np.float32)
    want = headwise.scaled_dot_product_attention(**given)
    given["out"] = np.zeros_like(want)
    given[name] = far_apart(given[name], axis)
    got = headwise.scaled_dot_product_attention(**given)
    assert same_bits(got, want)
    if name != "out":
        del given["out"]
        seen = headwise.observe(**given)
        assert same_bits(seen.output, want)
        np.testing.assert_allclose(seen.weights().sum(axis=-1), 1, rtol=1e-5)


def test_more_than_2_to_the_31_keys(queries: int) -> None:
    """One key and value, repeated in no memory; a window keeps all but the last few out."""
    length = (1 << 33) + 77
    query, key = np.ones((2, queries, 3), np.float32), np.ones((1, 1, 3), np.float32)
    keys = np.broadcast_to(key, (1, length, 3))
    values = np.broadcast_to(np.float32([[[2, 3]]]), (1, length, 2))
    seen = headwise.observe(
        query, keys, values, window(100, 0), query_offset="lower_right",
        statistics=("argmax", "visible_count", "distance"),
    )  # fmt: skip
    np.testing.assert_allclose(seen.output, np.broadcast_to([2, 3], seen.output.shape), rtol=1e-6)
    assert np.all(seen.visible_count == 101)
    first = length - queries - 100 + np.arange(queries)
    assert np.array_equal(seen.argmax, np.broadcast_to(first, seen.argmax.shape))
    weights = seen.weights(heads=0, queries=queries - 1, keys=slice(length - 102, None))
    np.testing.assert_allclose(weights, [0, *[1 / 101] * 101], rtol=1e-6)


def test_more_than_2_to_the_31_scores(rng: np.random.Generator) -> None:
    query, key, value = draw(rng, (1,), (50_000, 50_000), (2, 2), dtype=np.float32)
    output = headwise.scaled_dot_product_attention(query, key, value, window(3000, 3000))
    for i in (0, 20_000, 49_999):
        near = slice(max(0, i - 3000), i + 3001)
        true = reference.attention(query[:, i : i + 1], key[:, near], value[:, near]).output
        np.testing.assert_allclose(output[:, i : i + 1], true, atol=1e-6)
