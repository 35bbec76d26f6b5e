"""Splitting into heads, attending in each, and putting them together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import headwise
from headwise import (
    causal,
    combine_heads,
    multi_head_attention,
    multi_head_attention_per_head,
    scaled_dot_product_attention,
    split_heads,
)
from tests.support import refuses, same_bits


def test_heads_are_consecutive_chunks() -> None:
    x = np.arange(2 * 3 * 8).reshape(2, 3, 8)
    split = split_heads(x, 4)
    assert split.shape == (2, 4, 3, 2)
    for head in range(4):
        assert np.array_equal(split[:, head], x[..., 2 * head : 2 * head + 2])


def test_the_seed_by_its_own_words(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 10, 512))
    assert np.array_equal(split_heads(x, 8), x.reshape(2, 10, 8, 64).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("shape", [(6, 8), (2, 6, 8), (3, 2, 6, 8), (5, 3, 2, 6, 8)])
@pytest.mark.parametrize("num_heads", [1, 2, 8, np.int64(4)])
def test_combining_is_the_inverse_of_splitting(
    rng: np.random.Generator, shape: Any, num_heads: Any
) -> None:
    x = rng.normal(size=shape)
    split = split_heads(x, num_heads)
    assert split.shape == (*shape[:-2], num_heads, shape[-2], 8 // num_heads)
    assert same_bits(combine_heads(split), x)
    assert same_bits(split_heads(combine_heads(split), num_heads), np.ascontiguousarray(split))


def test_splitting_is_a_view(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 6, 8))
    for given in (x, x[:, ::2], x[::-1], x[:, :, :4], x[0]):
        assert np.shares_memory(split_heads(given, 2), x)
    split = split_heads(x, 2)
    split[1, 1, 5, 3] = 42
    assert x[1, 5, 7] == 42
    tensor = torch.zeros(2, 6, 8)
    assert split_heads(tensor, 2).data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("shape", [(0, 6, 8), (2, 0, 8), (2, 6, 0)])
def test_empty_arrays_are_split(shape: Any) -> None:
    split = split_heads(np.zeros(shape), 2)
    assert split.shape == (shape[0], 2, shape[1], shape[2] // 2)
    assert combine_heads(split).shape == shape


def test_every_library_comes_back() -> None:
    tensor = torch.arange(24.0).reshape(1, 3, 8)
    split = split_heads(tensor, 2)
    assert isinstance(split, torch.Tensor)
    assert torch.equal(combine_heads(split), tensor)
    listed = split_heads(tensor.tolist(), 2)
    assert isinstance(listed, np.ndarray)
    assert same_bits(listed, np.ascontiguousarray(split.numpy().astype(float)))
    assert combine_heads(listed.tolist()).shape == (1, 3, 8)
    assert split_heads(tensor.requires_grad_(), 2).grad_fn is not None


@pytest.mark.parametrize(
    ("shape", "num_heads", "kind", "words"),
    [
        ((2, 3, 8), 3, ValueError, ("num_heads", "3 heads", "8", "(2, 3, 8)")),
        ((2, 3, 8), 16, ValueError, ("num_heads", "16 heads", "8")),
        ((2, 3, 8), 0, ValueError, ("num_heads", "at least 1", "0")),
        ((2, 3, 8), -2, ValueError, ("num_heads", "at least 1", "-2")),
        ((8,), 2, ValueError, ("x", "2 dimensions", "(8,)")),
        ((), 1, ValueError, ("x", "2 dimensions", "()")),
        ((2, 3, 8), 2.0, TypeError, ("num_heads", "whole number", "2.0")),
        ((2, 3, 8), True, TypeError, ("num_heads", "whole number", "True")),
        ((2, 3, 8), "2", TypeError, ("num_heads", "whole number", "'2'")),
        ((2, 3, 8), None, TypeError, ("num_heads", "whole number", "None")),
    ],
)
@pytest.mark.parametrize("give", [np.zeros, torch.zeros], ids=["numpy", "torch"])
def test_what_cannot_be_split_is_refused(
    give: Any, shape: Any, num_heads: Any, kind: type[Exception], words: tuple[str, ...]
) -> None:
    with refuses(kind, *words):
        split_heads(give(shape), num_heads)


@pytest.mark.parametrize("function", [lambda x: split_heads(x, 1), combine_heads])
@pytest.mark.parametrize("x", [3.0, None, "text", [[1.0], [1.0, 2.0]]], ids=repr)
def test_what_is_no_array_is_refused_by_name(function: Any, x: Any) -> None:
    with refuses((TypeError, ValueError), "x "):
        function(x)


@pytest.mark.parametrize("shape", [(), (8,), (3, 8)])
def test_what_cannot_be_combined_is_refused(shape: Any) -> None:
    with refuses(ValueError, "x", "3 dimensions", "num_heads, seq_len, d_k", str(shape)):
        combine_heads(np.zeros(shape))


@pytest.mark.parametrize("function", [multi_head_attention, multi_head_attention_per_head])
def test_attention_is_called_exactly_once(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    calls: list[Any] = []

    def count(*inputs: Any, **options: Any) -> Any:
        calls.append((inputs, options))
        return scaled_dot_product_attention(*inputs, **options)

    monkeypatch.setattr(headwise.heads, "scaled_dot_product_attention", count)
    query, key, value = (rng.normal(size=(2, n, 12)) for n in (5, 7, 7))
    mask = rng.random((5, 7)) < 0.8
    options = {"query_offset": 1, "scale": 0.3, "bias": rng.normal(size=(5, 7)), "num_threads": 1}
    function(query, key, value, 3, mask, **options)
    assert len(calls) == 1
    inputs, given = calls[0]
    assert [x.shape for x in inputs[:3]] == [(2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)]
    assert all(np.shares_memory(x, y) for x, y in zip(inputs, (query, key, value), strict=False))
    assert inputs[3] is mask
    assert given == options


@pytest.mark.parametrize("lengths", [(10, 10), (4, 9), (1, 30), (40, 3)])
@pytest.mark.parametrize("num_heads", [1, 2, 6])
def test_each_head_attends_by_itself(
    rng: np.random.Generator, dtype: Any, lengths: Any, num_heads: int
) -> None:
    query, key, value = (
        rng.normal(size=(2, n, 12)).astype(dtype) for n in (lengths[0], lengths[1], lengths[1])
    )
    apart = multi_head_attention_per_head(query, key, value, num_heads, causal(), query_offset=3)
    width = 12 // num_heads
    assert apart.shape == (2, num_heads, lengths[0], width)
    for item in range(2):
        for head in range(num_heads):
            one = (x[item, :, head * width : (head + 1) * width] for x in (query, key, value))
            alone = scaled_dot_product_attention(*one, causal(), query_offset=3)
            assert same_bits(apart[item, head], alone)
    together = multi_head_attention(query, key, value, num_heads, causal(), query_offset=3)
    assert same_bits(together, combine_heads(apart))


def test_fewer_heads_of_key_and_value(rng: np.random.Generator) -> None:
    query, key, value = (rng.normal(size=(2, 5, n)) for n in (24, 8, 6))
    apart = multi_head_attention_per_head(query, key, value, 6, causal(), num_kv_heads=2)
    assert apart.shape == (2, 6, 5, 3)
    for head in range(6):
        q = query[..., 4 * head : 4 * head + 4]
        k, v = (x.reshape(2, 5, 2, -1)[:, :, head // 3] for x in (key, value))
        alone = multi_head_attention_per_head(q, k, v, 1, causal())[:, 0]
        np.testing.assert_allclose(apart[:, head], alone, atol=1e-14)  # across both kernels
    together = multi_head_attention(query, key, value, 6, causal(), num_kv_heads=2)
    assert same_bits(together, combine_heads(apart))


def test_value_heads_may_be_wider(rng: np.random.Generator) -> None:
    query, key, value = (rng.normal(size=(2, 5, n)) for n in (8, 8, 24))
    assert multi_head_attention_per_head(query, key, value, 2).shape == (2, 2, 5, 12)
    assert multi_head_attention(query, key, value, 2).shape == (2, 5, 24)


@pytest.mark.parametrize("function", [multi_head_attention, multi_head_attention_per_head])
def test_tensors_and_lists(rng: np.random.Generator, function: Any) -> None:
    x = rng.normal(size=(2, 5, 8)).astype(np.float32)
    want = function(x, x, x, 2)
    tensor = torch.from_numpy(x)
    output = function(tensor, tensor, tensor, 2)
    assert isinstance(output, torch.Tensor)
    assert same_bits(np.ascontiguousarray(output.numpy()), np.ascontiguousarray(want))
    listed = function(x.tolist(), x.tolist(), x.tolist(), 2)
    assert listed.dtype == np.float64
    np.testing.assert_allclose(listed, want, atol=1e-6)


def test_inputs_are_not_changed(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 5, 8))
    before = x.copy()
    multi_head_attention(x, x, x, 2, causal())
    assert same_bits(x, before)
