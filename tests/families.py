"""Tiny models of many families, with random weights: what the tests of the adapter run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import transformers

import headwise.adapters.transformers  # noqa: F401

BATCH, LENGTH, VOCABULARY = 2, 11, 99
VERSION = tuple(int(n) for n in transformers.__version__.split(".")[:2])
IN_FIVE = VERSION >= (5, 0)

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Family:
    """A kind of model: its classes by name, what its tiny configuration says, what it reads."""

    model: str
    config: str
    settings: dict[str, Any] = field(default_factory=dict)
    reads: str = "tokens"
    since: tuple[int, int] = (4, 56)  # before, its attention did not use the interface

    def build(self, implementation: Any, dtype: torch.dtype = torch.float64) -> Any:
        """Return the model; its weights are the same each time."""
        if self.since > VERSION:
            pytest.skip("does not use the attention interface in this version")
        config = getattr(transformers, self.config)(**self.settings)
        config._attn_implementation = implementation
        if IN_FIVE:  # kernels of experts know no float64
            config._experts_implementation = "eager"
        torch.manual_seed(0)
        with quiet():
            model = getattr(transformers, self.model)(config)
        _shake(model)
        return model.to(dtype).eval()

    def inputs(self, padding: str = "none") -> Inputs:
        """Return inputs of a batch, padded at one side, at neither, or with a hole."""
        generator = torch.Generator().manual_seed(1)
        made = READ[self.reads](generator)
        if "input_ids" in made:
            made["attention_mask"] = real_tokens(padding)
        return made

    @property
    def paddings(self) -> tuple[str, ...]:
        return ("none", "right", "left", "hole") if "input_ids" in self.inputs() else ("none",)


def _shake(model: Any) -> None:
    """Draw larger weights than a training begins with: heads shall look somewhere."""
    generator = torch.Generator().manual_seed(3)
    for name, x in model.named_parameters():
        if x.ndim > 1 or "sinks" in name:
            torch.nn.init.normal_(x, std=0.3, generator=generator)


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what transformers says about tiny configurations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def real_tokens(padding: str) -> torch.Tensor:
    real = torch.ones(BATCH, LENGTH, dtype=torch.int64)
    spaces = {"none": [], "right": range(LENGTH - 4, LENGTH), "left": range(4), "hole": (3, 4, 7)}
    real[1, list(spaces[padding])] = 0
    return real


def _tokens(generator: torch.Generator) -> Inputs:
    ids = torch.randint(3, VOCABULARY, (BATCH, LENGTH), generator=generator)
    return {"input_ids": ids}


def _both(generator: torch.Generator) -> Inputs:
    decoder = torch.randint(3, VOCABULARY, (BATCH, 7), generator=generator)
    return {**_tokens(generator), "decoder_input_ids": decoder}


def _speech(generator: torch.Generator) -> Inputs:
    features = torch.randn(BATCH, 8, 24, generator=generator, dtype=torch.float64)
    return {"input_features": features, "decoder_input_ids": _both(generator)["decoder_input_ids"]}


def _image(generator: torch.Generator) -> Inputs:
    return {"pixel_values": torch.randn(BATCH, 3, 16, 16, generator=generator, dtype=torch.float64)}


READ: dict[str, Callable[[torch.Generator], Inputs]] = {
    "tokens": _tokens,
    "both": _both,
    "speech": _speech,
    "image": _image,
}

_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    **_SPECIAL,
}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_WINDOWS = {
    "sliding_window": 4,
    "layer_types": ["sliding_attention", "full_attention"],
    "head_dim": 8,
    "tie_word_embeddings": False,
}
_EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
_PATCHES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 4,
}
_TWO = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
    **_SPECIAL,
}

DECODERS = {
    "llama": Family("LlamaForCausalLM", "LlamaConfig", _GROUPED),
    "qwen2": Family("Qwen2ForCausalLM", "Qwen2Config", _GROUPED),
    "qwen3": Family("Qwen3ForCausalLM", "Qwen3Config", {**_GROUPED, "head_dim": 16}),
    "mistral": Family("MistralForCausalLM", "MistralConfig", {**_GROUPED, "sliding_window": 4}),
    "mixtral": Family(
        "MixtralForCausalLM", "MixtralConfig", {**_GROUPED, **_EXPERTS, "sliding_window": 5}
    ),
    "phi3": Family("Phi3ForCausalLM", "Phi3Config", {**_GROUPED, "sliding_window": 6}),
    "gemma2": Family(
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**_GROUPED, **_WINDOWS, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 2.0},
    ),
    "gemma3": Family("Gemma3ForCausalLM", "Gemma3TextConfig", {**_GROUPED, **_WINDOWS}),
    "cohere2": Family("Cohere2ForCausalLM", "Cohere2Config", {**_GROUPED, **_WINDOWS}),
    "gpt_oss": Family("GptOssForCausalLM", "GptOssConfig", {**_GROUPED, **_WINDOWS, **_EXPERTS}),
    "llama4": Family(
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {
            **_GROUPED,
            **_EXPERTS,
            "head_dim": 8,
            "intermediate_size_mlp": 48,
            "attention_chunk_size": 4,
            "no_rope_layers": [1, 0],
        },
    ),
    "gpt2": Family(
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": VOCABULARY,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 64,
            "scale_attn_by_inverse_layer_idx": True,
            **_SPECIAL,
        },
    ),
    "gpt_neox": Family("GPTNeoXForCausalLM", "GPTNeoXConfig", _TEXT),
    "opt": Family(
        "OPTForCausalLM",
        "OPTConfig",
        {**_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32},
    ),
    "deepseek_v3": Family(  # values wider than keys
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {
            **_TEXT,
            "num_key_value_heads": 4,
            "moe_intermediate_size": 24,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "num_experts_per_tok": 2,
            "n_group": 1,
            "topk_group": 1,
            "first_k_dense_replace": 2,
            "kv_lora_rank": 8,
            "q_lora_rank": 8,
            "qk_nope_head_dim": 4,
            "qk_rope_head_dim": 4,
            "v_head_dim": 12,
        },
    ),
}
ENCODERS = {
    "bert": Family("BertModel", "BertConfig", _TEXT, since=(5, 0)),
    "roberta": Family("RobertaModel", "RobertaConfig", _TEXT, since=(5, 0)),
    "distilbert": Family(
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": VOCABULARY, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
        since=(5, 0),
    ),
    "albert": Family("AlbertModel", "AlbertConfig", {**_TEXT, "embedding_size": 16}, since=(5, 0)),
    "modernbert": Family(
        "ModernBertModel",
        "ModernBertConfig",
        {**_TEXT, "local_attention": 4, "global_attn_every_n_layers": 2},
        since=(5, 6),
    ),
    "vit": Family("ViTModel", "ViTConfig", _PATCHES, "image"),
    "dinov2": Family("Dinov2Model", "Dinov2Config", {**_PATCHES, "mlp_ratio": 2}, "image"),
    "siglip": Family("SiglipVisionModel", "SiglipVisionConfig", _PATCHES, "image"),
    "clip": Family("CLIPVisionModel", "CLIPVisionConfig", _PATCHES, "image"),
}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 12,
    "decoder_start_token_id": 1,
    "tie_word_embeddings": False,
    **_SPECIAL,
}
PAIRS = {
    "t5": Family("T5ForConditionalGeneration", "T5Config", _T5, "both", since=(5, 18)),
    "bart": Family("BartForConditionalGeneration", "BartConfig", _TWO, "both"),
    "marian": Family("MarianMTModel", "MarianConfig", _TWO, "both"),
    "whisper": Family(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            **_TWO,
            "num_mel_bins": 8,
            "max_source_positions": 12,
            "max_target_positions": 64,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        "speech",
    ),
}
FAMILIES = {**DECODERS, **ENCODERS, **PAIRS}


@contextmanager
def softmax_in_full() -> Iterator[None]:
    """Have models whose softmax is in float32 keep float64, so that rounding is out of the way."""
    softmax = torch.nn.functional.softmax

    def in_full(x: torch.Tensor, *args: Any, dtype: Any = None, **kwargs: Any) -> torch.Tensor:
        return softmax(x, *args, dtype=x.dtype if x.dtype == torch.float64 else dtype, **kwargs)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch.nn.functional, "softmax", in_full)
        yield


def flat(outputs: Any, name: str = "") -> dict[str, torch.Tensor]:
    """Return all tensors in a model's outputs, by where they are; caches left out."""
    if isinstance(outputs, torch.Tensor):
        return {name: outputs}
    pairs: Any = {}
    if isinstance(outputs, tuple | list):
        pairs = enumerate(outputs)
    elif hasattr(outputs, "items"):
        pairs = ((key, x) for key, x in outputs.items() if "past" not in key)
    return {k: x for key, part in pairs for k, x in flat(part, f"{name}.{key}").items()}


def at_real_tokens(name: str, x: torch.Tensor, inputs: Inputs) -> torch.Tensor:
    """Leave out of an output what belongs to padding: its place in the second dimension, or third.

    Weights have queries there; what a decoder makes has no padding, but for the keys it sees.
    """
    real = inputs.get("attention_mask")
    decodes = "decoder_input_ids" in inputs and "encoder" not in name
    if real is None or decodes:
        return x
    if x.ndim == 4:  # weights
        return x.transpose(1, 2)[real.bool()]
    return x[real.bool()] if x.shape[:2] == real.shape else x[real.bool().all(dim=1)]
