"""What models cannot have from headwise, and what the error says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

from headwise.adapters._transformers_attention import attention_function
from headwise.adapters.transformers import register
from tests.families import FAMILIES, quiet, softmax_in_full
from tests.support import refuses, run_script

X = torch.ones(2, 4, 3, 8)


def module(**attributes: Any) -> Any:
    return SimpleNamespace(**{"training": False, **attributes})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"head_mask": torch.ones(4)}, ("head_mask", "leave it out", "eager")),
        ({"attention_mask": torch.rand(1, 4, 1, 1)}, ("(1, 4, 1, 1)", "head_mask")),
        ({"cu_seq_lens_q": torch.tensor([0, 3])}, ("cu_seq_lens_q", "position_ids")),
        ({"indices": torch.zeros(2, 3, 1)}, ("SimpleNamespace", "indices", "eager")),
        ({"block_indices": 1, "temperature": 2.0}, ("block_indices, temperature",)),
        ({"is_causal": True}, ("attention_mask is None", "is_causal", '"sdpa"')),
        ({"attention_mask": torch.ones(2, 3, dtype=torch.int64)}, ("attention_mask", "int64")),
        ({"attention_mask": torch.ones(2, 1, 3, 2) > 0}, ("mask", "(2, 4, 3, 3)", "(2, 1, 3, 2)")),
        ({"s_aux": torch.ones(3)}, ("sink_logits", "4", "(3,)")),
        ({"position_bias": torch.ones(2, 4, 3, 7)}, ("bias", "(2, 4, 3, 7)")),
        ({"softcap": 0.0}, ("softcap", "0.0")),
        ({"scaling": float("nan")}, ("scale", "nan")),
    ],
)
def test_options(options: dict[str, Any], words: tuple[str, ...]) -> None:
    with refuses((ValueError, TypeError), *words), torch.no_grad():
        attention_function(module(), X, X, X, **options)


def test_options_that_are_off_are_none() -> None:
    off = {"head_mask": None, "indices": None, "cu_seq_lens_q": None, "temperature": False}
    plain = attention_function(module(), X, X, X)[0]
    harmless = {"use_cache": True, "position_ids": X, "sliding_window": 2, "dropout": 0.5}
    for options in (off, harmless, {"is_causal": False}):
        assert torch.equal(attention_function(module(), X, X, X, **options)[0], plain)


def test_training() -> None:
    with refuses(ValueError, "training", "dropout 0.5", "model.eval()"):
        attention_function(module(training=True), X, X, X, dropout=0.5)
    assert attention_function(module(training=True), X, X, X)[0].shape == (2, 3, 4, 8)


@pytest.mark.parametrize("name", ["query", "key", "value", "position_bias", "s_aux"])
def test_gradients(name: str) -> None:
    tensors = {
        "query": X,
        "key": X,
        "value": X,
        "position_bias": X[..., :3],
        "s_aux": X[0, :, 0, 0],
    }
    tensors[name] = tensors[name].clone().requires_grad_()
    with refuses(ValueError, name, "torch.no_grad()", "model.eval()", '"sdpa"'):
        attention_function(module(), **tensors)
    with torch.no_grad():
        out, _ = attention_function(module(), **tensors)
    with torch.inference_mode():
        assert torch.equal(attention_function(module(), **tensors)[0], out)


def test_a_model_that_is_called_without_no_grad() -> None:
    family = FAMILIES["llama"]
    with refuses(ValueError, "query requires a gradient", "torch.no_grad()"), quiet():
        family.build("headwise")(**family.inputs())


def test_a_mask_that_requires_a_gradient() -> None:
    bias = torch.zeros(2, 1, 3, 3, requires_grad=True)
    with refuses(ValueError, "attention_mask requires a gradient"):
        attention_function(module(), X, X, X, bias)


def test_sinks_that_are_kept_back() -> None:
    with refuses(ValueError, "sinks", "s_aux"):
        attention_function(module(sinks=torch.ones(4)), X, X, X)


@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_places_and_dimensions(name: str) -> None:
    tensors = {"query": X, "key": X, "value": X}
    with refuses(ValueError, name, "meta", "model.to('cpu')"):
        attention_function(module(), **{**tensors, name: X.to("meta")})
    with refuses(ValueError, name, "(batch, heads, length, dim)", "(4, 3, 8)"):
        attention_function(module(), **{**tensors, name: X[0]})


def test_a_causal_module_without_a_mask() -> None:
    with refuses(ValueError, "attention_mask is None", "causal"):
        attention_function(module(is_causal=True), X, X, X)
    one = X[:, :, :1]
    assert attention_function(module(is_causal=True), one, X, X)[0].shape == (2, 1, 4, 8)


class Plain(torch.nn.Module):
    """A model of tensors, as those who record models want it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = FAMILIES["llama"].build("headwise", torch.float32)
        self.model.requires_grad_(False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(input_ids=ids, use_cache=False).logits
        return logits


@pytest.mark.filterwarnings("ignore")  # of tracing, about transformers
def test_what_records_models() -> None:
    ids = FAMILIES["llama"].inputs()["input_ids"]
    with refuses(RuntimeError, "kernels of its own", "torch.jit.trace"), torch.no_grad():
        torch.jit.trace(Plain(), (ids,))
    with refuses(RuntimeError, "kernels of its own", "torch.export"), torch.no_grad():
        torch.export.export(Plain(), (ids,))
    with refuses(RuntimeError, "kernels of its own", "torch.fx"):
        torch.fx.symbolic_trace(Records())


class Records(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return attention_function(self, x, x, x)[0]


@pytest.mark.filterwarnings("ignore")  # of dynamo, about transformers
def test_compiled_models_call_headwise_between_their_graphs() -> None:
    model, inputs = FAMILIES["gemma2"].build("headwise"), FAMILIES["gemma2"].inputs("left")
    with softmax_in_full():
        want = model(**inputs).logits
        compiled = torch.compile(model, backend="eager")
        torch.testing.assert_close(compiled(**inputs).logits, want, rtol=1e-12, atol=1e-12)
        torch._dynamo.reset()
        whole = torch.compile(model, backend="eager", fullgraph=True)
        with refuses(Exception, "headwise has kernels of its own", "without fullgraph=True"):
            whole(**inputs)
    torch._dynamo.reset()


BY_THEMSELVES = {
    "BloomModel": ("BloomConfig", "BloomAttention"),
    "DebertaV2Model": ("DebertaV2Config", "DisentangledSelfAttention"),
    "FalconModel": ("FalconConfig", "FALCON_ATTENTION_CLASSES"),
    "GPTNeoModel": ("GPTNeoConfig", "GPTNeoSelfAttention"),
    "LongformerModel": ("LongformerConfig", "LongformerSelfAttention"),
    "XLNetModel": ("XLNetConfig", "XLNetRelativeAttention"),
}


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_models_that_never_ask(name: str) -> None:
    """They would run as they always do, and nobody would know."""
    config_class, by = BY_THEMSELVES[name]
    config = getattr(transformers, config_class)()
    config._attn_implementation = "headwise"
    with torch.device("meta"), quiet():
        with refuses(ValueError, name, by, "attention interface", '"eager"'):
            getattr(transformers, name)(config)
        config._attn_implementation = "eager"
        assert getattr(transformers, name)(config)


def test_models_are_told_apart_when_they_are_switched() -> None:
    model = FAMILIES["llama"].build("eager")
    model.set_attn_implementation("headwise")
    assert model.config._attn_implementation == "headwise"
    with refuses(ValueError, "Longformer", "attention interface"), torch.device("meta"), quiet():
        longformer = transformers.LongformerModel(transformers.LongformerConfig())
        longformer.get_correct_attn_implementation("headwise")


def test_models_that_ask_in_some_places() -> None:
    config = transformers.Aimv2VisionConfig()
    config._attn_implementation = "headwise"
    with torch.device("meta"), pytest.warns(UserWarning, match="Aimv2AttentionPoolingHead"):
        transformers.Aimv2VisionModel(config)


def test_models_without_attention() -> None:
    config = transformers.ResNetConfig()
    config._attn_implementation = "headwise"
    with torch.device("meta"), quiet():
        assert transformers.ResNetModel(config)


def test_registering_twice_changes_nothing() -> None:
    check = transformers.PreTrainedModel.get_correct_attn_implementation
    register()
    assert transformers.PreTrainedModel.get_correct_attn_implementation is check


def test_other_implementations_are_left_alone() -> None:
    model = FAMILIES["llama"].build(None)
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(ValueError, match="nonsense"):
        model.set_attn_implementation("nonsense")


LATER = """
import sys
import headwise, headwise.adapters
assert not {"torch", "transformers"} & {*sys.modules}
"""


def test_nothing_is_loaded_until_it_is_used() -> None:
    run_script(LATER)


MISSING = """
import sys
sys.modules[{name!r}] = {module}
try:
    import headwise.adapters.transformers
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "module", "words"),
    [
        ("torch", "None", ("PyTorch",)),
        ("transformers", "None", ("transformers 4.56 or newer",)),
    ],
)
def test_what_is_missing_is_named(name: str, module: str, words: tuple[str, ...]) -> None:
    said = run_script(MISSING.format(name=name, module=module))
    assert all(word in said for word in (*words, "pip install 'headwise[transformers]'")), said


OLD = """
import types, sys
old = types.ModuleType("transformers")
old.__version__ = "4.47.1"
sys.modules["transformers"] = old
"""


def test_what_is_too_old_is_named() -> None:
    script = OLD + MISSING.format(name="unused", module="None")
    said = run_script(script)
    assert all(word in said for word in ("4.47.1 is too old", "4.56 or newer")), said
