"""Models compute on headwise what they compute by themselves: outputs, weights, and next tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from headwise.adapters._transformers_tensors import Deferred
from headwise.adapters.transformers import AttentionCall, intercept
from tests.families import (
    DECODERS,
    FAMILIES,
    IN_FIVE,
    LENGTH,
    PAIRS,
    Family,
    at_real_tokens,
    flat,
    quiet,
    softmax_in_full,
)

EVERYTHING = {"output_attentions": True, "output_hidden_states": True}


def families(*names: Any) -> Any:
    return pytest.mark.parametrize("family", [FAMILIES[name] for name in names], ids=list(names))


def run(model: Any, inputs: Any, **options: Any) -> dict[str, torch.Tensor]:
    with quiet():
        return flat(model(**inputs, **options))


@families(*FAMILIES)
def test_outputs_and_weights_are_eagers(family: Family) -> None:
    ours, eager = family.build("headwise"), family.build("eager")
    for padding in family.paddings:
        inputs = family.inputs(padding)
        with softmax_in_full():
            got, want = (run(model, inputs, **EVERYTHING) for model in (ours, eager))
            plain = run(ours, inputs)
        assert set(want) <= set(got)
        weights = [x for name, x in got.items() if "attentions" in name]
        assert weights
        assert not IN_FIVE or not any(isinstance(x, Deferred) for x in weights)  # were asked for
        for name, x in want.items():
            a, b = (at_real_tokens(name, y, inputs) for y in (got[name], x))
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10, msg=lambda m: f"{name}: {m}")  # noqa: B023
        assert all(
            torch.equal(plain[name], got[name]) for name in plain if "attentions" not in name
        )


@families(*FAMILIES)
def test_calls_show_the_weights(family: Family) -> None:
    """Those who look at the calls see the weights that eager attention returns, in its order."""
    calls: list[torch.Tensor] = []

    def look(call: AttentionCall) -> Any:
        seen = call.observe(())
        calls.append(seen.weights())
        return seen.output, None

    ours, eager = family.build("headwise"), family.build("eager")
    inputs = family.inputs(family.paddings[-1])
    with softmax_in_full(), intercept(look):
        run(ours, inputs)
        want = run(eager, inputs, output_attentions=True)
    weights = {name: x for name, x in want.items() if "attentions" in name}
    assert len(calls) == len(weights)
    for name, x in weights.items():
        assert any(_same(*(at_real_tokens(name, z, inputs) for z in (x, y))) for y in calls), name


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-10, atol=1e-10)


@families("llama", "gemma2", "gpt_oss", "gpt2", "bert", "t5", "vit", "whisper")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_errors_are_those_of_eager(family: Family, dtype: torch.dtype) -> None:
    """Against float64, at most twice what a model's own attention does in the same precision."""
    true, ours, eager = (
        family.build("eager"),
        family.build("headwise", dtype),
        family.build("eager", dtype),
    )
    inputs = family.inputs("left")
    rounded = {k: x.to(dtype) if x.is_floating_point() else x for k, x in inputs.items()}
    for model in (true, ours, eager):  # the same weights: those that the precision can say
        model.load_state_dict({k: x.to(dtype) for k, x in true.state_dict().items()})
    with softmax_in_full():
        want = run(true, inputs)
        errors = [_error(run(model, rounded), want, inputs) for model in (ours, eager)]
    assert errors[0] <= 2 * errors[1] + 1e-7
    assert 0 < errors[1] < 0.2


def _error(got: dict[str, torch.Tensor], want: dict[str, torch.Tensor], inputs: Any) -> float:
    return max(
        float((at_real_tokens(name, got[name].double() - x, inputs)).abs().mean())
        for name, x in want.items()
        if x.is_floating_point() and name != ".encoder_last_hidden_state"
    )


def generated(model: Any, inputs: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens, and the logits that they were chosen by."""
    with quiet():
        made = model.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=5,
            min_new_tokens=5,
            output_logits=True,
            return_dict_in_generate=True,
            **options,
        )
    return made.sequences, torch.stack(made.logits)


WAYS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "static cache": {"cache_implementation": "static"},
    "no cache": {"use_cache": False},
    "prefill in parts": {"prefill_chunk_size": 3},
}
WINDOWED = ("llama", "mistral", "gemma3", "gpt_oss", "llama4")
RUNS = [(name, way) for name in (*DECODERS, *PAIRS) for way in ("greedy", "static cache")]
RUNS += [(name, way) for name in ("gemma3", "t5") for way in ("beams", "no cache")]
RUNS += [(name, "prefill in parts") for name in WINDOWED]


@pytest.mark.parametrize(("name", "way"), RUNS)
def test_generated_tokens_are_eagers(name: str, way: str) -> None:
    if (name, way) == ("deepseek_v3", "static cache") and not IN_FIVE:
        pytest.skip("static caches were as wide for values as for keys")
    family = FAMILIES[name]
    inputs = family.inputs("left")
    inputs.pop("decoder_input_ids", None)
    ours, eager = (family.build(implementation) for implementation in ("headwise", "eager"))
    with softmax_in_full():
        got, want = (generated(model, inputs, **WAYS[way]) for model in (ours, eager))
    assert torch.equal(got[0], want[0])
    torch.testing.assert_close(got[1], want[1], rtol=1e-10, atol=1e-10)


@families(*WINDOWED)
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("parts", [(LENGTH - 1, 1), (4, 4, 3), (1,) * LENGTH], ids=str)
def test_the_past_may_come_in_parts(family: Family, static: bool, parts: tuple[int, ...]) -> None:
    """Logits are eager's and those of the whole, by whatever steps a cache was filled."""
    ours, eager = family.build("headwise"), family.build("eager")
    real = family.inputs("left")["attention_mask"].bool()
    with softmax_in_full(), quiet():
        got, want = (_in_parts(model, family, parts, static)[real] for model in (ours, eager))
        whole = _in_parts(ours, family, (LENGTH,), static)[real]
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(got, whole, rtol=1e-5, atol=1e-5)  # some turn by float32 angles


def _in_parts(model: Any, family: Family, parts: tuple[int, ...], static: bool) -> torch.Tensor:
    inputs = family.inputs("left")
    ids, real = inputs["input_ids"], inputs["attention_mask"]
    places = (real.cumsum(dim=1) - 1).clamp(min=0)
    cache, logits, done = _cache(model, static), [], 0
    for size in parts:
        some = slice(done, done + size)
        done += size
        step = model(
            input_ids=ids[:, some],
            attention_mask=real[:, :done],
            position_ids=places[:, some],
            past_key_values=cache,
            use_cache=True,
        )
        logits.append(step.logits)
    return torch.cat(logits, dim=1)


def _cache(model: Any, static: bool) -> Any:
    from transformers import DynamicCache, StaticCache

    if static:
        return StaticCache(config=model.config, max_cache_len=20)
    return DynamicCache(config=model.config)


@families("llama", "mistral", "gemma2", "llama4")
def test_packed_sequences_are_eagers(family: Family) -> None:
    """Positions that begin anew tell where a sequence begins."""
    ids = family.inputs()["input_ids"]
    lengths = (5, 1, 5)
    places = torch.cat([torch.arange(n) for n in lengths])[None]
    packed = {"input_ids": ids, "position_ids": places, "use_cache": False}
    with softmax_in_full(), quiet():
        got, want = (family.build(name)(**packed).logits for name in ("headwise", "eager"))
        model = family.build("headwise")
        alone = [model(input_ids=part).logits for part in ids.split(lengths, dim=1)]
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)
    if family is not FAMILIES["llama4"]:  # chunks were long counted from the first token of all
        torch.testing.assert_close(got, torch.cat(alone, dim=1), rtol=1e-10, atol=1e-10)


@families("llama", "gemma2", "bert")
@pytest.mark.parametrize("kind", ["booleans", "floats", "finite floats"])
def test_a_mask_of_ones_own(family: Family, kind: str) -> None:
    """A mask with four dimensions goes through models as it is, booleans or numbers to add."""
    inputs = family.inputs()
    generator = torch.Generator().manual_seed(2)
    seen = torch.rand(2, 1, LENGTH, LENGTH, generator=generator) < 0.5
    seen |= torch.eye(LENGTH, dtype=torch.bool)
    numbers = torch.zeros(seen.shape, dtype=torch.float64)
    numbers = numbers.masked_fill(~seen, torch.finfo(torch.float64).min)
    if kind == "finite floats":
        numbers = torch.randn(2, 1, LENGTH, LENGTH, generator=generator, dtype=torch.float64)
    ours, eager = family.build("headwise"), family.build("eager")
    with softmax_in_full():
        got = run(ours, {**inputs, "attention_mask": seen if kind == "booleans" else numbers})
        want = run(eager, {**inputs, "attention_mask": numbers})
    for name, x in want.items():
        torch.testing.assert_close(got[name], x, rtol=1e-10, atol=1e-10)
