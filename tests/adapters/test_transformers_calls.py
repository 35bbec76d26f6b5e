"""Those who look at a model's attention calls: what they see, and that they change nothing."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import headwise
from headwise.adapters._transformers_attention import attention_function
from headwise.adapters._transformers_tensors import Deferred
from headwise.adapters.transformers import AttentionCall, LayerName, intercept, name_layers
from tests.families import FAMILIES, IN_FIVE, Family, quiet, softmax_in_full
from tests.support import refuses

X = torch.randn(2, 4, 3, 8, generator=torch.Generator().manual_seed(0))


def calls_of(family: Family, padding: str = "left", **options: Any) -> tuple[Any, list[Any]]:
    """Run a model and keep its calls."""
    model, calls = family.build("headwise"), []

    def look(call: AttentionCall) -> Any:
        calls.append(call)
        return call.attend(), None

    with softmax_in_full(), quiet(), intercept(look):
        model(**family.inputs(padding), **options)
    return model, calls


def test_a_call_says_what_is_asked() -> None:
    model, calls = calls_of(FAMILIES["gemma2"])
    assert [call.layer_idx for call in calls] == [0, 1]
    assert [call.module for call in calls] == [layer.self_attn for layer in model.model.layers]
    first = calls[0]
    assert first.query.shape == (2, 4, 11, 8)
    assert first.key.shape == first.value.shape == (2, 2, 11, 8)
    assert not first.query.requires_grad
    padding = headwise.lengths([11, 7], left=True)
    assert first.mask == headwise.window(3) & headwise.causal() & padding
    assert calls[1].mask == headwise.causal() & padding
    assert (first.softcap, first.scale, first.query_offset) == (2.0, 24**-0.5, 0)
    assert first.bias is first.sink_logits is None
    assert set(first.options) == {"query_offset", "scale", "bias", "softcap", "sink_logits"}
    assert "Gemma2Attention" in repr(first)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.mask = None


def test_sinks_and_position_biases() -> None:
    _, calls = calls_of(FAMILIES["gpt_oss"])
    assert all(call.sink_logits.shape == (4,) for call in calls)
    seen = calls[0].observe(())
    assert float(seen.weights().sum(-1).max()) < 1
    if IN_FIVE:
        _, calls = calls_of(FAMILIES["t5"])
        assert [call.bias is not None and call.bias.shape[1] for call in calls[:4]] == [4] * 4
        assert all(call.scale == 1 for call in calls)


@pytest.mark.parametrize("padding", ["none", "left", "right", "hole"])
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_real_tokens(name: str, padding: str) -> None:
    """Of queries and keys, for each item; None where nothing is padding."""
    family = FAMILIES[name]
    _, calls = calls_of(family, padding)
    real = family.inputs(padding)["attention_mask"].bool().numpy()
    for call in calls:
        for tokens in (call.real_queries, call.real_keys):
            assert (tokens is None) == (padding == "none")
            assert tokens is None or np.array_equal(tokens, real)


def test_real_tokens_of_a_step() -> None:
    """The padding of a prompt stays padding; a new token is none, and room in a cache is."""
    family, calls = FAMILIES["llama"], []
    model, inputs = family.build("headwise"), family.inputs("left")

    def look(call: AttentionCall) -> Any:
        calls.append(call)
        return call.attend(), None

    with softmax_in_full(), quiet(), intercept(look):
        model.generate(**inputs, max_new_tokens=3, cache_implementation="static", min_new_tokens=3)
    prompt, step = calls[0], calls[-1]
    assert prompt.query.shape[2] == 11
    assert prompt.real_queries.sum(axis=1).tolist() == [11, 7]
    assert step.query.shape[2] == 1
    assert step.real_queries is None
    assert step.real_keys.sum(axis=1).tolist() == [13, 9]
    assert (step.query_offset, step.key.shape[2]) == (12, 14) or step.key.shape[2] >= 13


def test_real_tokens_of_an_encoder_and_its_decoder() -> None:
    """An encoder's padding is none of a decoder's, though their lengths are the same."""
    family = FAMILIES["bart"]
    inputs = family.inputs("right")
    inputs["decoder_input_ids"] = inputs["input_ids"]
    model, calls = family.build("headwise"), []

    def look(call: AttentionCall) -> Any:
        calls.append(call)
        return call.attend(), None

    with softmax_in_full(), quiet(), intercept(look):
        model(**inputs)
    real, names = inputs["attention_mask"].bool().numpy(), name_layers(model)
    kinds = set()
    for call in calls:
        kind = names[call.module].stack.removeprefix("model.")
        kinds.add(kind)
        if kind == "encoder.layers.self_attn":
            assert np.array_equal(call.real_queries, real)
        else:
            assert call.real_queries is None
        if kind == "decoder.layers.self_attn":
            assert call.real_keys is None
        else:
            assert np.array_equal(call.real_keys, real)
    assert len(kinds) == 3


def test_real_tokens_of_dense_masks() -> None:
    """A mask that came as a tensor tells by what is seen."""
    seen = torch.tensor([[1, 1, 1], [0, 1, 1]], dtype=torch.bool)[:, None, None, :]
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    hide = torch.finfo(torch.float32).min
    calls: list[AttentionCall] = []

    def look(call: AttentionCall) -> Any:
        calls.append(call)
        return call.attend(), None

    bias = torch.full((1, 4, 3, 3), 0.5)
    masks = [seen, seen & causal, torch.zeros(2, 1, 1, 3).masked_fill(~seen, hide)]
    masks += [bias.masked_fill(~(seen & causal), hide)]
    with intercept(look):
        for mask in masks:
            attention_function(SimpleNamespace(training=False), X, X, X, mask)
        attention_function(SimpleNamespace(training=False), X, X, X, bias)
    for call in calls[:4]:
        assert call.real_keys is not None
        assert call.real_keys.tolist() == seen[:, 0, 0].tolist()
        assert call.real_queries.tolist() == seen[:, 0, 0].tolist()
    assert calls[0].mask == calls[2].mask == headwise.lengths([3, 2], left=True)
    assert calls[3].mask is None
    assert calls[4].real_keys is calls[4].real_queries is None
    assert torch.equal(calls[4].bias, bias)


def test_looking_changes_no_bit() -> None:
    family = FAMILIES["mistral"]
    model, inputs, entropies = family.build("headwise", torch.float32), family.inputs("left"), []

    def look(call: AttentionCall) -> Any:
        seen = call.observe("entropy")
        entropies.append(seen.entropy)
        return seen.output, None

    with torch.no_grad(), quiet():
        plain = model(**inputs).logits
        with intercept(look):
            looked = model(**inputs).logits
        after = model(**inputs).logits
    assert torch.equal(plain, looked)
    assert torch.equal(plain, after)
    assert len(entropies) == 2
    assert all(x.shape == (2, 4, 11) for x in entropies)


def test_what_a_function_returns_is_what_the_model_gets() -> None:
    family = FAMILIES["llama"]
    model, inputs = family.build("headwise"), family.inputs()
    ones = torch.ones(2, 4, 11, 11, dtype=torch.float64)
    zeros = torch.zeros(2, 4, 11, 8, dtype=torch.float64)
    with softmax_in_full(), quiet():
        with intercept(lambda call: (zeros, ones if call.weights_wanted else None)):
            outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
        with intercept(lambda call: (call.attend(), None)):
            asked = model(**inputs, output_attentions=True)
        want = model(**inputs, output_attentions=True)
    assert torch.equal(outputs.attentions[1], ones)
    assert not torch.allclose(outputs.logits, want.logits)
    assert torch.equal(asked.logits, want.logits)
    assert torch.equal(asked.attentions[1], want.attentions[1])


def test_a_call_can_be_changed() -> None:
    call = AttentionCall(torch.nn.Identity(), X, X, X, headwise.causal())
    wide = dataclasses.replace(call, mask=None, scale=0.0)
    torch.testing.assert_close(wide.attend(), X.mean(dim=2, keepdim=True).expand_as(X))
    assert torch.equal(call.attend(), headwise.scaled_dot_product_attention(X, X, X, call.mask))


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, ("intercept", "(output, weights or None)", "NoneType")),
        (X, ("intercept", "(output, weights or None)", "Tensor")),
        ((X.transpose(1, 2), None), ("(2, 4, 3, 8)", "(2, 3, 4, 8)")),
    ],
)
def test_what_a_function_must_return(returned: Any, words: tuple[str, ...]) -> None:
    with intercept(lambda call: returned), refuses((TypeError, ValueError), *words):
        attention_function(torch.nn.Identity().eval(), X, X, X)


def test_the_innermost_looks() -> None:
    seen: list[str] = []

    def looking(name: str) -> Any:
        def look(call: AttentionCall) -> Any:
            seen.append(name)
            return call.attend(), None

        return look

    def attend() -> None:
        attention_function(torch.nn.Identity().eval(), X, X, X)

    with intercept(looking("outer")):
        attend()
        with intercept(looking("inner")):
            attend()
        attend()
        with refuses(ZeroDivisionError), intercept(lambda call: 1 / 0):  # type: ignore[arg-type]
            attend()
        attend()
    attend()
    assert seen == ["outer", "inner", "outer", "outer"]


def test_other_threads_are_not_looked_at() -> None:
    family, here, there = FAMILIES["llama"], [], []
    models = [family.build("headwise") for _ in range(2)]

    def looking(calls: list[Any]) -> Any:
        def look(call: AttentionCall) -> Any:
            calls.append(call.module)
            return call.attend(), None

        return look

    def run(model: Any) -> None:
        with torch.no_grad():
            for _ in range(20):
                model(**family.inputs())

    def elsewhere() -> None:
        run(models[1])
        with intercept(looking(there)):
            run(models[1])

    thread = threading.Thread(target=elsewhere)
    with softmax_in_full(), quiet(), intercept(looking(here)):
        thread.start()
        run(models[0])
        thread.join()
    for model, calls in zip(models, (here, there), strict=True):
        assert len(calls) == 40
        assert set(calls) <= set(model.modules())


def test_weights_that_nobody_asked_for_are_made_when_somebody_looks() -> None:
    _, weights = attention_function(torch.nn.Identity().eval(), X, X, X)
    assert isinstance(weights, Deferred)
    assert weights.shape == (2, 4, 3, 3)
    torch.testing.assert_close(weights + 0, headwise.observe(X, X, X).weights())


def test_weights_of_keys_that_are_gone() -> None:
    key = X.clone()
    _, weights = attention_function(torch.nn.Identity().eval(), X, key, X)
    key[:, :, 0] = 0
    with refuses(RuntimeError, "overwritten", "output_attentions=True"):
        weights.sum()
    with torch.inference_mode():
        some = X.clone()  # PyTorch does not count what is written to these
        _, weights = attention_function(torch.nn.Identity().eval(), some, some, some)
        with refuses(RuntimeError, "torch.no_grad()"):
            weights.sum()


def test_names_of_layers() -> None:
    model = FAMILIES["bart"].build("headwise")
    names = {layer.name: layer for layer in name_layers(model).values()}
    cross = "model.decoder.layers.1.encoder_attn"
    assert names[cross] == LayerName(cross, "model.decoder.layers.encoder_attn", 1)
    own = "model.decoder.layers.0.self_attn"
    assert names[own] == LayerName(own, "model.decoder.layers.self_attn", 0)
    assert names[""] == LayerName("", "", 0)


def test_layers_keep_their_own_numbers_where_those_differ() -> None:
    class Attention(torch.nn.Module):
        def __init__(self, layer_idx: Any) -> None:
            super().__init__()
            self.layer_idx = layer_idx

    def numbers(*own: Any) -> list[int]:
        layers = torch.nn.ModuleList([Attention(n) for n in own])
        names = name_layers(torch.nn.ModuleDict({"layers": layers}))
        return [names[module].index for module in layers]

    assert numbers(3, 7, 11) == [3, 7, 11]  # of a hybrid model: the others are no attention
    assert numbers(0, 0, 0) == [0, 1, 2]
    assert numbers(None, None) == [0, 1]
    assert numbers(1, None) == [0, 1]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_call_has_a_name_of_its_own(name: str) -> None:
    family = FAMILIES[name]
    if name == "albert":
        pytest.skip("its layers are one module")
    model, calls = calls_of(family)
    names = name_layers(model)
    found = [(names[call.module].stack, names[call.module].index) for call in calls]
    assert len(set(found)) == len(found) == len(calls)
    assert {index for _, index in found} == {0, 1}
