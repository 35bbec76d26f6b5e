"""The attention call: known values, PyTorch's results, and `out`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as all of PyTorch's users do

from headwise import causal, reference, scaled_dot_product_attention
from tests.support import draw, error, refuses, same_bits, ulp

CLOSE = {"float32": {"rtol": 1e-5, "atol": 2e-6}, "float64": {"rtol": 1e-12, "atol": 1e-14}}


def test_known_values(dtype: Any, attend: Any, instruction_set: str) -> None:
    query, key = np.array([[0.0, 0], [1, 0]], dtype), np.array([[1.0, 0], [0, 1], [1, 1]], dtype)
    value = np.array([[1.0], [2], [6]], dtype)
    e = np.exp(1 / np.sqrt(2))
    want = [[3.0], [(e * 1 + 2 + e * 6) / (2 * e + 1)]]
    np.testing.assert_allclose(attend(query, key, value), want, rtol=4 * ulp(dtype))
    want = [[1.0], [(e * 1 + 2) / (e + 1)]]
    np.testing.assert_allclose(
        attend(query, key, value, causal(), query_offset=0), want, rtol=4 * ulp(dtype)
    )


def test_a_single_key_gives_its_value(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 1), dtype=dtype)
    output = scaled_dot_product_attention(query, key, value)
    assert same_bits(output, np.broadcast_to(value, output.shape))


def torch_result(inputs: Any, **options: Any) -> Any:
    options = {
        k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in options.items()
    }
    return F.scaled_dot_product_attention(*map(torch.from_numpy, inputs), **options).numpy()


@pytest.mark.parametrize("lengths", [(1, 1), (1, 300), (7, 9), (20, 20), (130, 70), (65, 300)])
def test_equal_to_pytorch(
    rng: np.random.Generator, dtype: Any, lengths: tuple[int, int], attend: Any
) -> None:
    inputs = draw(rng, (2, 3), lengths, (24, 40), dtype=dtype)
    close = CLOSE[dtype.name]
    np.testing.assert_allclose(attend(*inputs), torch_result(inputs), **close)
    mask = rng.random((2, 1, *lengths)) < 0.6
    mask[..., 0] = True
    want = torch_result(inputs, attn_mask=mask)
    np.testing.assert_allclose(attend(*inputs, mask), want, **close)
    bias = rng.normal(size=(3, *lengths)).astype(dtype)
    want = torch_result(inputs, attn_mask=bias[None])
    np.testing.assert_allclose(attend(*inputs, bias), want, **close)
    np.testing.assert_allclose(attend(*inputs, bias=bias), want, **close)
    want = torch_result(inputs, scale=-0.3, is_causal=True)
    got = attend(*inputs, causal(), scale=-0.3, query_offset="upper_left")
    np.testing.assert_allclose(got, want, **close)


@pytest.mark.parametrize("query_len", [1, 4, 40])
def test_grouped_heads_equal_pytorchs(
    rng: np.random.Generator, dtype: Any, query_len: int, attend: Any
) -> None:
    inputs = draw(rng, (2, 6), (query_len, 40), (16, 8), dtype=dtype, kv_heads=2)
    want = torch_result(inputs, enable_gqa=True)
    np.testing.assert_allclose(attend(*inputs), want, **CLOSE[dtype.name])


def test_the_error_is_no_worse_than_pytorchs(rng: np.random.Generator, dtype: Any) -> None:
    wider = np.float64 if dtype == np.float32 else np.longdouble
    ours = theirs = 0.0
    for length in (20, 70, 300):
        inputs = draw(rng, (5, 2), (length, length), (64, 64), dtype=dtype)
        true = reference.attention(*inputs, dtype=wider).output
        ours = max(ours, error(scaled_dot_product_attention(*inputs), true))
        theirs = max(theirs, error(torch_result(inputs), true))
    assert ours <= 1.5 * theirs + ulp(dtype)


def test_out_is_written_and_returned(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), (8, 3), dtype=dtype)
    want = scaled_dot_product_attention(*inputs)
    out = np.full(want.shape, np.nan, dtype)
    assert scaled_dot_product_attention(*inputs, out=out) is out
    assert same_bits(out, want)
    tensor = torch.zeros(want.shape, dtype=getattr(torch, dtype.name))
    assert scaled_dot_product_attention(*inputs, out=tensor) is tensor
    assert same_bits(tensor.numpy(), want)


def test_only_out_is_written(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), (8, 3), dtype=dtype)
    whole = np.full((4, 2, queries + 2, 7), 5, dtype)
    out = whole[1:3, :, 1:-1, 2:5]
    scaled_dot_product_attention(*inputs, out=out)
    assert same_bits(out, scaled_dot_product_attention(*inputs))
    out[...] = 5
    assert np.all(whole == 5)


@pytest.mark.parametrize("name", ["query", "key", "value", "mask", "bias"])
@pytest.mark.parametrize(("first", "written"), [(0, 0), (0, 1), (1, 0)])
def test_out_may_overlap_an_operand(
    *, rng: np.random.Generator, queries: int, name: str, first: int, written: int
) -> None:
    # The output of one batch item lies where another item's operand is.
    memory = np.zeros((3, 2, queries, queries))
    x, out = memory[first : first + 2], memory[written : written + 2]
    given = {n: rng.normal(size=x.shape) for n in ("query", "key", "value", name)}
    x[...] = given[name]
    want = scaled_dot_product_attention(**given)
    assert scaled_dot_product_attention(**given | {name: x}, out=out) is out
    assert same_bits(out, want)


REFUSED_OUT: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "shape": (np.zeros((3, 4)), ValueError, ("shape", "(3, 2)", "(3, 4)")),
    "rank": (np.zeros((1, 3, 2)), ValueError, ("shape", "(3, 2)", "(1, 3, 2)")),
    "precision": (np.zeros((3, 2), np.float32), ValueError, ("dtype", "float64", "float32")),
    "whole numbers": (np.zeros((3, 2), int), ValueError, ("dtype", "float64", "int64")),
    "byte order": (np.zeros((3, 2), ">f8"), ValueError, ("dtype", "float64", ">f8")),
    "read-only": (np.broadcast_to(np.zeros((3, 2)), (3, 2)), ValueError, ("writable",)),
    "list": ([[0.0] * 2] * 3, TypeError, ("list",)),
    "tuple": (((0.0, 0.0),) * 3, TypeError, ("tuple",)),
    "dict": ({}, TypeError, ("array", "dict")),
}


@pytest.mark.parametrize("what", REFUSED_OUT)
def test_what_cannot_be_written_to_is_refused(what: str) -> None:
    out, kind, words = REFUSED_OUT[what]
    with refuses(kind, "out", *words):
        scaled_dot_product_attention(np.zeros((3, 4)), np.zeros((5, 4)), np.zeros((5, 2)), out=out)


@pytest.mark.parametrize("strides", [(0, 8), (8, 8), (8, 0), (12, 8), (-8, 8)])
def test_an_out_that_repeats_its_elements_is_refused(strides: tuple[int, int]) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(12)[6:], (3, 2), strides)
    assert out.flags.writeable
    with refuses(ValueError, "out", "once"):
        scaled_dot_product_attention(np.zeros((3, 4)), np.zeros((5, 4)), np.zeros((5, 2)), out=out)


def test_options_are_given_by_name() -> None:
    x = np.zeros((3, 4))
    with pytest.raises(TypeError, match="positional"):
        scaled_dot_product_attention(x, x, x, None, 0)  # type: ignore[misc]
