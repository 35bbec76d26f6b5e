"""The error: at most twice that of the plain computation in the same precision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import headwise
from tests.support import FEW_ROWS, KINDS, MANY, Pool, draw

DIMS = (1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65, 80, 128)
LENGTHS = range(1, 71)
SMALL = {"tiny", "denormal"}  # processors take their time over such numbers
ONE_BY_ONE = [kind for kind in KINDS if kind != "large"]


def dims_at(n: int, kind: str) -> tuple[int, int]:
    """Choose a head_dim and another value_dim for the n-th case."""
    dims = DIMS[:7] if kind in SMALL else DIMS
    return dims[n % len(dims)], dims[(5 * n + 2) % len(dims)]


def check(
    rng: np.random.Generator, kind: str, dtype: Any, queries: int, cases: Iterable[Any]
) -> None:
    """Pool cases of ``(kv_len, (head_dim, value_dim))``, ten heads of each."""
    pool = Pool(dtype)
    for kv_len, dims in cases:
        pool.add(draw(rng, (5, 2), (queries, kv_len), dims, dtype=dtype, kind=kind))
    pool.check(outputs=kind != "large")


@pytest.mark.parametrize("part", range(7))
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_every_length(
    rng: np.random.Generator, kind: str, dtype: Any, queries: int, part: int
) -> None:
    lengths = LENGTHS[part::7]
    check(rng, kind, dtype, queries, [(n, dims_at(n, kind)) for n in lengths])


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_every_dimension(rng: np.random.Generator, kind: str, dtype: Any, queries: int) -> None:
    pairs = zip(DIMS, DIMS[::-1], strict=True)
    check(rng, kind, dtype, queries, [(23, dims) for dims in pairs])


@pytest.mark.parametrize("dims", [(256, 256), (512, 1), (1, 1024), (1000, 520), (1024, 1024)])
def test_wide_heads(rng: np.random.Generator, dtype: Any, queries: int, dims: Any) -> None:
    check(rng, "plain", dtype, queries, [(n, dims) for n in (5, 70, 300)])


@pytest.mark.parametrize("kind", ["plain", "peaky", "tied"])
def test_long(rng: np.random.Generator, kind: str, dtype: Any, queries: int) -> None:
    check(rng, kind, dtype, queries, [(n, (33, 17)) for n in (257, 600, 4097)])


@pytest.mark.parametrize("queries", [FEW_ROWS - 1, MANY], ids=["few", "many"])
def test_large_scores(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    cases = [(n, dims_at(n, "large")) for n in LENGTHS]
    cases += [(23, dims) for dims in zip(DIMS, DIMS[::-1], strict=True)]
    cases += [(n, (64, 33)) for n in (257, 600)]
    check(rng, "large", dtype, queries, cases)


@pytest.mark.parametrize("kind", ["plain", "peaky"])
def test_causal_self_attention(rng: np.random.Generator, kind: str, dtype: Any) -> None:
    pool = Pool(dtype)
    for length in (1, 5, 16, 70, 257, 300):
        inputs = draw(rng, (5, 1), (length, length), (16, 8), dtype=dtype, kind=kind)
        pool.add(inputs, mask=headwise.causal())
    pool.check()


def test_few_and_many_queries_agree(rng: np.random.Generator, dtype: Any) -> None:
    query, key, value = draw(rng, (5, 2), (MANY, 300), (24, 40), dtype=dtype)
    pool = Pool(dtype)
    for count in (1, FEW_ROWS - 1, FEW_ROWS, MANY):
        pool.add((query[..., :count, :], key, value))
    pool.check()


def test_a_bias_of_large_numbers(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    pool = Pool(dtype)
    for _ in range(5):
        inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
        pool.add(inputs, bias=rng.normal(size=(queries, 40)).astype(dtype) * 100)
    pool.check()


@pytest.mark.parametrize("scale", [0.0, -0.25, 3.0, 1e-35, 1e20, -1e20])
def test_every_scale(rng: np.random.Generator, dtype: Any, queries: int, scale: float) -> None:
    pool = Pool(dtype)
    for _ in range(5):
        pool.add(draw(rng, (2, 2), (queries, 40), dtype=dtype), scale=scale)
    pool.check()
