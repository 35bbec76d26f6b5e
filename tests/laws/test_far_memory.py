"""Offsets beyond 2**31 and 2**32: rows a gibibyte apart, in memory of which little is touched."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any

import numpy as np
import pytest

import headwise
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
