"""The layer: equal to PyTorch's, heads apart or together, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import headwise
from headwise import MultiHeadAttention, causal, combine_heads
from headwise.adapters.torch import mask_from_multihead_attention
from tests.support import refuses, same_bits

CLOSE = {torch.float32: {"atol": 2e-6, "rtol": 1e-5}, torch.float64: {"atol": 1e-14, "rtol": 1e-12}}


def pair(dtype: Any = torch.float64, heads: int = 4, **options: Any) -> tuple[Any, Any]:
    """Return PyTorch's module, of width 16, and ours."""
    torch.manual_seed(3)
    module = nn.MultiheadAttention(16, heads, batch_first=True, dtype=dtype, **options).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) / 3)  # biases begin as zeros
    return module, MultiHeadAttention.from_torch_state_dict(module.state_dict(), heads)


def check(module: Any, layer: Any, inputs: Any, mask: Any = None, **masks: Any) -> None:
    with torch.no_grad():
        want, _ = module(*inputs, need_weights=False, **masks)
    got = layer(*inputs, mask)
    assert isinstance(got, torch.Tensor)
    torch.testing.assert_close(got, want, **CLOSE[want.dtype])
    as_numpy = layer(*(x.numpy() for x in inputs), mask)
    assert same_bits(as_numpy, got.numpy())


def tensors(dtype: Any, *shapes: Any) -> list[Any]:
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("heads", [1, 4, 16])
@pytest.mark.parametrize("bias", [True, False])
def test_self_attention_equals_pytorchs(dtype: Any, heads: int, bias: bool) -> None:
    module, layer = pair(dtype, heads, bias=bias)
    for length in (1, 7, 40):
        [x] = tensors(dtype, (2, length, 16))
        check(module, layer, (x, x, x))
        torch.testing.assert_close(layer(x), layer(x, x, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
def test_cross_attention_equals_pytorchs(dtype: Any, bias: bool) -> None:
    module, layer = pair(dtype, kdim=10, vdim=6, bias=bias)
    for lengths in ((1, 9), (7, 9), (30, 5)):
        inputs = tensors(dtype, (2, lengths[0], 16), (2, lengths[1], 10), (2, lengths[1], 6))
        check(module, layer, inputs)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("kind", ["boolean", "float"])
def test_masks_equal_pytorchs(per_head: bool, kind: str) -> None:
    module, layer = pair()
    query, key = tensors(torch.float64, (2, 5, 16), (2, 9, 16))
    masked = torch.rand((8, 5, 9) if per_head else (5, 9)) < 0.4
    masked[..., 0] = False
    padding = torch.tensor([[False] * 9, [False] * 6 + [True] * 3])
    if kind == "float":
        masked, padding = (torch.where(m, -torch.inf, 0.25).double() for m in (masked, padding))
    for masks in (
        {"attn_mask": masked},
        {"key_padding_mask": padding},
        {"attn_mask": masked, "key_padding_mask": padding},
    ):
        mask = mask_from_multihead_attention(**masks, num_heads=4)
        check(module, layer, (query, key, key), mask, **masks)


def test_a_causal_mask_equals_pytorchs() -> None:
    module, layer = pair()
    [x] = tensors(torch.float64, (2, 9, 16))
    masked = nn.Transformer.generate_square_subsequent_mask(9, dtype=torch.float64)
    check(module, layer, (x, x, x), causal(), attn_mask=masked, is_causal=True)


def test_a_module_inside_another() -> None:
    encoder = nn.TransformerEncoderLayer(16, 4, batch_first=True, dtype=torch.float64).eval()
    layer = MultiHeadAttention.from_torch_state_dict(encoder.state_dict(), 4, prefix="self_attn.")
    [x] = tensors(torch.float64, (2, 9, 16))
    check(encoder.self_attn, layer, (x, x, x))


def test_without_a_batch() -> None:
    module, layer = pair()
    [x] = tensors(torch.float64, (9, 16))
    check(module, layer, (x, x, x))


def grouped(rng: np.random.Generator) -> tuple[list[Any], MultiHeadAttention]:
    """Return weights of 6 heads and of 2 key/value heads, and the layer."""
    shapes = ((24, 10), (8, 10), (6, 10), (7, 18))
    weights = [rng.normal(size=shape) for shape in shapes]
    return weights, MultiHeadAttention(*weights, num_heads=6, num_kv_heads=2)


def test_the_layer_is_its_parts(rng: np.random.Generator) -> None:
    (q, k, v, o), layer = grouped(rng)
    x, y = rng.normal(size=(2, 5, 10)), rng.normal(size=(2, 9, 10))
    options = {"query_offset": 2, "bias": rng.normal(size=(5, 9)), "num_threads": 1}
    heads = layer.head_outputs(x, y, mask=causal(), **options)
    parts = x @ q.T, y @ k.T, y @ v.T
    want = headwise.multi_head_attention_per_head(*parts, 6, causal(), num_kv_heads=2, **options)
    assert heads.shape == (2, 6, 5, 3)
    assert same_bits(heads, want)
    output = layer(x, y, mask=causal(), **options)
    assert output.shape == (2, 5, 7)
    np.testing.assert_allclose(output, combine_heads(heads) @ o.T, rtol=1e-13)


def test_looking_at_the_heads(rng: np.random.Generator) -> None:
    _, layer = grouped(rng)
    x, y = rng.normal(size=(2, 5, 10)), rng.normal(size=(2, 9, 10))
    options = {"query_offset": 2, "bias": rng.normal(size=(5, 9)), "num_threads": 2}
    seen = layer.observe(x, y, mask=causal(), statistics=("entropy", "distance"), **options)
    assert seen.statistics == ("entropy", "distance")
    assert same_bits(seen.output, layer.head_outputs(x, y, mask=causal(), **options))
    assert seen.weights(heads=1).shape == (2, 5, 9)


def test_looking_at_tensors_gives_tensors() -> None:
    _, layer = pair()
    [x] = tensors(torch.float64, (2, 9, 16))
    seen = layer.observe(x)
    for got in (layer(x), layer.head_outputs(x), seen.output, seen.lse, seen.entropy):
        assert isinstance(got, torch.Tensor)


def test_biases(rng: np.random.Generator) -> None:
    weights = [rng.normal(size=(8, 8)) for _ in range(4)]
    biases = {name: rng.normal(size=8) for name in ("query", "key", "value", "output")}
    x = rng.normal(size=(2, 5, 8))
    plain = MultiHeadAttention(*weights, num_heads=2)
    for name, bias in biases.items():
        layer = MultiHeadAttention(*weights, num_heads=2, biases={name: bias})
        difference = layer(x) - plain(x)
        if name == "output":
            np.testing.assert_allclose(difference, np.broadcast_to(bias, (2, 5, 8)), atol=1e-13)
        elif name == "value":  # a constant value comes out as it is
            want = np.broadcast_to(weights[3] @ bias, (2, 5, 8))
            np.testing.assert_allclose(difference, want, atol=1e-12)
        elif name == "key":  # the same score for every key changes nothing
            np.testing.assert_allclose(difference, 0, atol=1e-12)
        else:
            assert abs(difference).max() > 0.01


def test_what_it_shows_of_itself(rng: np.random.Generator) -> None:
    _, layer = grouped(rng)
    words = ("MultiHeadAttention", "10 -> 7", "num_heads=6", "num_kv_heads=2", "float64")
    assert all(word in repr(layer) for word in words)


SHAPES = ((8, 8), (8, 8), (8, 8), (8, 8))
REFUSED: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "heads": (SHAPES, {"num_heads": 3}, ("num_heads", "3", "8")),
    "no heads": (SHAPES, {"num_heads": 0}, ("num_heads", "at least 1")),
    "kv heads": (
        SHAPES, {"num_heads": 2, "num_kv_heads": 4}, ("multiple of num_kv_heads", "2 and 4"),
    ),
    "head_dim": (
        ((8, 8), (6, 8), (8, 8), (8, 8)), {"num_heads": 2},
        ("query and key", "head_dim", "4 and 3", "(8, 8)", "(6, 8)"),
    ),
    "output": (
        ((8, 8), (8, 8), (6, 8), (8, 8)), {"num_heads": 2},
        ("output_weight", "6 input features", "(8, 8)"),
    ),
    "rank": (
        ((8, 8), (8,), (8, 8), (8, 8)), {"num_heads": 2},
        ("key_weight", "2 dimensions", "(out_features, in_features)", "(8,)"),
    ),
    "bias": (
        SHAPES, {"num_heads": 2, "biases": {"value": np.zeros(7)}},
        ("value_bias", "(8,)", "value_weight", "(7,)"),
    ),
    "unknown bias": (
        SHAPES, {"num_heads": 2, "biases": {"q": np.zeros(8)}},
        ("biases", "query, key, value, output", "['q']"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_at_once(what: str) -> None:
    shapes, options, words = REFUSED[what]
    with refuses(ValueError, *words):
        MultiHeadAttention(*map(np.zeros, shapes), **options)


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_inputs_of_another_width_are_refused(rng: np.random.Generator, name: str) -> None:
    _, layer = grouped(rng)
    inputs = dict.fromkeys(("query", "key", "value"), np.zeros((2, 5, 10)))
    for shape in ((2, 5, 9), (10,)):
        with refuses(ValueError, name, f"{name}_len, 10", str(shape)):
            layer(**inputs | {name: np.zeros(shape)})
    with refuses(TypeError, name, "complex128"):
        layer(**inputs | {name: np.zeros((2, 5, 10), complex)})


def test_weights_that_are_no_arrays_are_refused() -> None:
    weights = [np.zeros((8, 8))] * 4
    with refuses(TypeError, "output_weight", "NoneType"):
        MultiHeadAttention(*weights[:3], None, num_heads=2)
    with refuses(TypeError, "query_bias", "complex128"):
        MultiHeadAttention(*weights, num_heads=2, biases={"query": np.zeros(8, complex)})
    with refuses(TypeError, "query_weight", "gradient", ".detach()"):
        MultiHeadAttention(nn.Parameter(torch.zeros(8, 8)), *weights[1:], num_heads=2)


def test_state_dicts_that_do_not_fit_are_refused() -> None:
    state = pair()[0].state_dict()
    with refuses(KeyError, "enc.q_proj_weight", "nn.MultiheadAttention", "prefix="):
        MultiHeadAttention.from_torch_state_dict(state, 4, prefix="enc.")
    with refuses(KeyError, "out_proj.weight"):
        MultiHeadAttention.from_torch_state_dict({"in_proj_weight": state["in_proj_weight"]}, 4)
    with refuses(ValueError, "bias_k", "add_bias_kv", "not supported"):
        pair(add_bias_kv=True)
    with refuses(ValueError, "in_proj", "three equal parts", "(47, 16)"):
        MultiHeadAttention.from_torch_state_dict(
            state | {"in_proj_weight": state["in_proj_weight"][1:]}, 4
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weights", [torch.float32, None])
def test_16_bits_in_16_bits_out(dtype: Any, weights: Any) -> None:
    module, layer = pair(torch.float32)
    if weights is None:
        state = {name: x.to(dtype) for name, x in module.state_dict().items()}
        layer = headwise.MultiHeadAttention.from_torch_state_dict(state, 4)
    [x] = tensors(torch.float32, (2, 9, 16))
    want = module(x, x, x, need_weights=False)[0]
    x = x.to(dtype)
    for got in (layer(x), layer.head_outputs(x), layer.observe(x).output):
        assert got.dtype == dtype
    close = 8 * torch.finfo(dtype).eps
    np.testing.assert_allclose(layer(x).float(), want.detach(), rtol=close, atol=close)
