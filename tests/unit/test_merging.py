"""Merging partial results over disjoint keys."""

from __future__ import annotations

from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import headwise
from headwise import causal, merge, observe, reference
from tests.support import draw, refuses, same_bits, ulp


def parts(inputs: Any, cuts: list[int], **options: Any) -> list[tuple[Any, Any]]:
    """Attend to the keys between the cuts; every part knows where its keys stand."""
    query, key, value = inputs
    found = []
    for first, last in zip([0, *cuts], [*cuts, key.shape[-2]], strict=True):
        k, v = key[..., first:last, :], value[..., first:last, :]
        seen = observe(query, k, v, **options, query_offset=200 - first)
        found.append((seen.output, seen.lse))
    return found


@pytest.mark.parametrize("cuts", [[150], [0], [300], [7, 7, 100], list(range(0, 300, 13))])
def test_parts_merge_to_the_whole(
    rng: np.random.Generator, dtype: Any, queries: int, cuts: list[int]
) -> None:
    inputs = draw(rng, (2, 3), (queries, 300), dtype=dtype)
    output, lse = reduce(lambda a, b: merge(*a, *b), parts(inputs, cuts, mask=causal()))
    true = reference.attention(*inputs, causal(), query_offset=200)
    close = 40 * ulp(dtype)
    np.testing.assert_allclose(output, true.output, rtol=close, atol=close)
    np.testing.assert_allclose(lse, true.lse, rtol=close)
    assert output.dtype == lse.dtype == dtype


def test_rows_that_see_nothing_in_one_part_or_in_both(rng: np.random.Generator) -> None:
    inputs = draw(rng, (1, 1), (20, 300))
    early, late = parts(inputs, [210], mask=causal() & (np.arange(20) != 3)[:, None])
    assert np.isneginf(late[1][0, 0, :10]).all()
    output, lse = merge(*early, *late)
    assert same_bits(output[0, 0, :10], early[0][0, 0, :10])
    assert not output[0, 0, 3].any()
    assert np.isneginf(lse[0, 0, 3])


def test_what_a_part_that_saw_nothing_holds_does_not_count() -> None:
    output, lse = merge(np.ones((1, 2)), np.zeros(1), np.full((1, 2), np.nan), [-np.inf])
    assert same_bits(output, np.ones((1, 2)))
    assert same_bits(lse, np.zeros(1))


def test_nan_stays() -> None:
    output, lse = merge(np.full((1, 2), np.nan), [np.nan], np.ones((1, 2)), [0.0])
    assert np.isnan(output).all()
    assert np.isnan(lse).all()


def test_infinities_raise_no_warning() -> None:
    output, lse = merge([[np.inf]], [-800.0], np.ones((1, 1)), [np.inf])
    assert np.isnan(output).all()
    assert np.isposinf(lse).all()


def test_a_sink_is_a_part(rng: np.random.Generator) -> None:
    inputs, sinks = draw(rng, (2, 3), (20, 300)), np.array([0.0, 5.0, -2.0])
    whole = observe(*inputs, sink_logits=sinks, query_offset=200)
    sink = np.zeros((2, 3, 20, 8)), np.broadcast_to(sinks[:, None], (2, 3, 20))
    output, lse = reduce(lambda a, b: merge(*a, *b), [*parts(inputs, [150]), sink])
    np.testing.assert_allclose(output, whole.output, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(lse, whole.lse, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, torch.bfloat16])
def test_16_bits(rng: np.random.Generator, dtype: Any) -> None:
    inputs = draw(rng, (1, 2), (5, 300), dtype=np.float32)
    narrow = [
        torch.from_numpy(x).to(dtype) if isinstance(dtype, torch.dtype) else x.astype(dtype)
        for x in inputs
    ]
    output, lse = reduce(lambda a, b: merge(*a, *b), parts(narrow, [100]))
    assert output.dtype == dtype
    assert type(output) is type(lse) is type(narrow[0])
    assert str(lse.dtype).removeprefix("torch.") == "float32"
    want = headwise.scaled_dot_product_attention(*inputs)
    wide = output.float().numpy() if isinstance(output, torch.Tensor) else output.astype(np.float32)
    np.testing.assert_allclose(wide, want, atol=0.03)


def test_what_does_not_fit_is_refused() -> None:
    good: dict[str, Any] = {
        "output_a": np.ones((2, 3)),
        "lse_a": np.ones(2),
        "output_b": np.ones((2, 3)),
        "lse_b": np.ones(2),
    }
    bad: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
        "output_a": (np.ones((2, 3), int), TypeError, ("output_a", "floats", "int64")),
        "lse_a": (np.ones((2, 3)), ValueError, ("lse_a", "(2,)", "(2, 3)")),
        "output_b": (np.ones((3, 3)), ValueError, ("output_b", "(2, 3)", "(3, 3)")),
        "lse_b": (np.ones(3), ValueError, ("lse_b", "(2,)", "(3,)")),
    }
    merge(**good)
    for name, (wrong, kind, words) in bad.items():
        with refuses(kind, *words):
            merge(**good | {name: wrong})
    for name in ("output_b", "lse_b"):
        with refuses(TypeError, name, "float32", "float64"):
            merge(**good | {name: good[name].astype(np.float32)})
    for short in (np.float16, ml_dtypes.bfloat16):
        logs = {name: np.ones(2, short) for name in ("lse_a", "lse_b")}
        with refuses(TypeError, "lse_a", np.dtype(short).name, "float32 or float64", "observe"):
            merge(**good | logs)
    merge(**good | {name: good[name].astype(">f8") for name in ("output_b", "lse_b")})
    with refuses(ValueError, "output_a", "(..., query_len, value_dim)"):
        merge(np.float64(1), 1.0, 1.0, 1.0)
