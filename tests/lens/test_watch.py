"""Watching models: what is recorded is what eager attention shows, in every way of running them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import lens
from headwise.lens.watching import model_name
from tests.support import refuses

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TINY = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}


def make(kind: str, **more: Any) -> Any:
    """Return a tiny model with random weights, in float64 so that only mistakes show."""
    import headwise.adapters.transformers  # noqa: F401  makes the name known

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**more)
    name = f"{kind}ForCausalLM" if hasattr(transformers, f"{kind}ForCausalLM") else f"{kind}Model"
    model = getattr(transformers, name)._from_config(config, attn_implementation="headwise")
    return model.eval().double()


def llama(**more: Any) -> Any:
    return make("Llama", **TINY, **HEADS, bos_token_id=0, pad_token_id=0, **more)


def mistral(window: int = 6) -> Any:
    return make("Mistral", **TINY, **HEADS, sliding_window=window, pad_token_id=0)


def ids_of(*shape: int, seed: int = 0) -> Any:
    return torch.tensor(np.random.default_rng(seed).integers(1, 40, shape))


def watched(model: Any, run: Any, **options: Any) -> lens.Atlas:
    with torch.no_grad(), lens.watch(model, **options) as atlas:
        run(model)
    return atlas


def same(one: lens.Atlas, other: lens.Atlas) -> None:
    """Compare all numbers and views; rotary positions are float32 in any model."""
    assert one.layers == other.layers
    assert one.numbers.keys() == other.numbers.keys()
    for name, table in one.numbers.items():
        np.testing.assert_allclose(table, other.numbers[name], rtol=1e-6, atol=1e-9, err_msg=name)
    for a, b in zip(one.texts, other.texts, strict=True):
        assert (a.query_len, a.kv_len, a.block) == (b.query_len, b.kv_len, b.block)
        for layer, view in a.layers.items():
            for name, array in vars(view).items():
                np.testing.assert_allclose(
                    array, getattr(b.layers[layer], name), rtol=1e-5, atol=1e-7, err_msg=name
                )


def eager_weights(model: Any, ids: Any) -> list[Any]:
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(ids, output_attentions=True).attentions
    model.set_attn_implementation("headwise")
    return [w.numpy() for w in weights]


@pytest.mark.parametrize("make_model", [llama, mistral])
def test_numbers_are_those_of_eager_weights(make_model: Any) -> None:
    model, ids = make_model(), ids_of(2, 30)
    atlas = watched(model, lambda m: m(ids))
    for layer, weights in enumerate(eager_weights(model, ids)):
        logs = np.log(np.where(weights > 0, weights, 1))
        back = np.arange(30)[:, None] - np.arange(30)
        diagonal = np.diagonal(weights, -1, axis1=2, axis2=3)
        expected = {
            "entropy": -(weights * logs).sum(-1).mean((0, 2)),
            "confidence": weights.max(-1).mean((0, 2)),
            "distance": (weights * back).sum(-1).mean((0, 2)),
            "previous_token": diagonal.mean((0, 2)),
            "first_key": weights[:, :, 1:, 0].mean((0, 2)),
        }
        for name, want in expected.items():
            np.testing.assert_allclose(atlas.numbers[name][layer], want, rtol=1e-6, err_msg=name)
        view = atlas.texts[1].layers[layer]
        np.testing.assert_allclose(view.block_mean, weights[1], rtol=1e-5, atol=1e-7)
        top = np.sort(weights[1], -1)[..., ::-1][..., :4]
        np.testing.assert_allclose(view.top_weights, top, rtol=1e-5, atol=1e-7)


def test_outputs_have_the_same_bits() -> None:
    model, ids = llama(), ids_of(3, 25)
    with torch.no_grad():
        plain = model(ids).logits
        with lens.watch(model):
            seen = model(ids).logits
    assert torch.equal(plain, seen)


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("make_model", [llama, mistral])
def test_generated_tokens_belong_to_their_text(make_model: Any, cache: str | None) -> None:
    model, ids = make_model(), ids_of(2, 12)
    options = {"max_new_tokens": 9, "do_sample": False, "cache_implementation": cache}
    found = []
    written = watched(model, lambda m: found.append(m.generate(ids, **options)))
    read = watched(model, lambda m: m(found[0][:, :-1]))
    assert (written.num_texts, written.sums["rows"].max()) == (2, 2 * 20)
    same(written, read)


def test_padding_changes_no_number() -> None:
    model = llama()
    texts = [ids_of(n, seed=n) for n in (9, 20, 13)]
    apart = watched(model, lambda m: [m(text[None]) for text in texts])
    for side in ("left", "right"):
        batch = torch.zeros(3, 20, dtype=torch.long)
        real = torch.zeros(3, 20, dtype=torch.long)
        for row, text in enumerate(texts):
            where = slice(20 - len(text), 20) if side == "left" else slice(0, len(text))
            batch[row, where], real[row, where] = text, 1
        together = watched(model, lambda m, b=batch, r=real: m(b, attention_mask=r))
        same(apart, together)


def test_padded_texts_go_on() -> None:
    model, long = llama(), ids_of(15)
    batch, real = torch.stack([torch.cat([long[:6] * 0, long[6:]]), long]), torch.ones(2, 15)
    real[0, :6] = 0
    found: list[Any] = []
    options = {"attention_mask": real.long(), "max_new_tokens": 5, "do_sample": False}
    written = watched(model, lambda m: found.append(m.generate(batch, **options)))
    first, second = found[0][:1, 6:-1], found[0][1:, :-1]
    same(written, watched(model, lambda m: [m(first), m(second)]))


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated")
def test_a_prompt_may_come_in_chunks() -> None:
    model, ids = llama(), ids_of(1, 30)

    def in_chunks(m: Any) -> None:
        past = transformers.DynamicCache(config=m.config)
        for begin in (0, 11, 12, 25):
            end = {0: 11, 11: 12, 12: 25, 25: 30}[begin]
            m(ids[:, begin:end], past_key_values=past, use_cache=True)

    same(watched(model, in_chunks), watched(model, lambda m: m(ids)))


def test_encoder_and_decoder_generate() -> None:
    import headwise.adapters.transformers  # noqa: F401

    torch.manual_seed(0)
    config = transformers.T5Config(
        d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, vocab_size=40,
        decoder_start_token_id=0, eos_token_id=None,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration._from_config(
        config, attn_implementation="headwise"
    )
    model, ids, found = model.eval().double(), ids_of(2, 14), []
    written = watched(
        model, lambda m: found.append(m.generate(ids, max_new_tokens=6, do_sample=False))
    )
    read = watched(model, lambda m: m(input_ids=ids, decoder_input_ids=found[0][:, :-1]))
    same(written, read)
    names = {str(layer) for layer in read.layers}
    assert {"encoder.SelfAttention.0", "decoder.EncDecAttention.1"} <= names
    views = {text.name.rpartition("(")[2].rstrip(")"): text for text in read.texts[:3]}
    assert views["decoder.EncDecAttention"].query_len == 6
    assert views["decoder.EncDecAttention"].kv_len == 14
    assert views["encoder.SelfAttention"].query_len == 14


def test_images_have_heads_too() -> None:
    model = make("ViT", **{**TINY, "vocab_size": 1}, num_attention_heads=4, image_size=16,
                 patch_size=4)  # fmt: skip
    pixels = torch.rand(2, 3, 16, 16, dtype=torch.float64)
    atlas = watched(model, lambda m: m(pixels))
    assert atlas.num_texts == 2
    assert atlas.texts[0].tokens is None
    assert {"entropy", "previous_token", "next_token"} <= atlas.numbers.keys()
    assert "induction" not in atlas.numbers


def test_planted_heads_are_found() -> None:
    """A model whose weights make a previous-token head, a sink, and an induction head of both."""
    model = planted()
    rng = np.random.default_rng(1)
    some = torch.tensor(rng.permutation(np.arange(1, 39))[:20])
    ids = torch.cat([torch.zeros(1, dtype=torch.long), some, some])[None]
    atlas = watched(model, lambda m: m(ids), induction_distance=19)
    assert [name for name, _ in atlas.find("previous-token")] == ["0.0"]
    assert atlas.numbers["previous_token"][0, 0] > 0.99
    assert [name for name, _ in atlas.find("induction")] == ["1.0"]
    assert [name for name, _ in atlas.find("induction (diagonal)")] == ["1.0"]
    assert 0.9 < atlas.numbers["induction_diagonal"][1, 0] < 20 / 22 + 0.02  # two rows have no copy
    assert atlas.numbers["induction"][1, 0] > 0.99
    assert "0.1" in [name for name, _ in atlas.find("first-key (sink)")]
    assert atlas.numbers["first_key"][0, 1] > 0.99
    assert atlas.dataset.pattern.sel(layer=0, head=1) == "vertical"
    assert atlas.dataset.fixed_offset.sel(layer=0, head=0) == 1


def planted() -> Any:
    """Return GPT-2 of two layers and two heads, with weights made by hand.

    The residual stream holds a token's code (40), a position's code (64), and room for what layer 0
    copies: the code of the token before (40). Head 0.0 asks for the position before its own, 0.1
    for position 0, and 1.0 for keys whose token before is the query's own.
    """
    dims, positions, words = 192, 64, 40
    config = transformers.GPT2Config(
        n_embd=dims, n_head=2, n_layer=2, n_positions=positions, vocab_size=words, n_inner=4,
        scale_attn_weights=False,
    )  # fmt: skip
    import headwise.adapters.transformers  # noqa: F401

    model = transformers.GPT2Model._from_config(config, attn_implementation="headwise").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.wte.weight[:, :words] = torch.eye(words)
        model.wpe.weight[:, words : words + positions] = torch.eye(positions)
        for block in model.h:
            block.ln_1 = torch.nn.Identity()
            block.ln_2 = torch.nn.Identity()
        plant_layers(model, words, positions, dims)
    return model.eval()


def plant_layers(model: Any, words: int, positions: int, dims: int) -> None:
    half, copied, sharp = dims // 2, words + positions, 50.0
    first, second = model.h[0].attn, model.h[1].attn
    place, word = slice(words, words + positions), slice(0, words)
    query, key, value = (first.c_attn.weight[:, k * dims : (k + 1) * dims] for k in range(3))
    query[place, :positions] = sharp * torch.eye(positions).roll(-1, 1)  # position i asks for i - 1
    query[words, :positions] = 0
    query[words, 0] = sharp  # the first has none before it, and asks for itself
    key[place, :positions] = torch.eye(positions)
    value[word, :words] = torch.eye(words)
    query[place, half] = sharp  # the other head: everybody asks for position 0
    key[words, half] = 1.0
    first.c_proj.weight[:words, copied : copied + words] = torch.eye(words)
    query, key = (second.c_attn.weight[:, k * dims : (k + 1) * dims] for k in range(2))
    query[word, :words] = sharp * torch.eye(words)
    key[copied : copied + words, :words] = torch.eye(words)


def test_only_some_layers_and_no_views() -> None:
    model, ids = llama(), ids_of(1, 20)
    atlas = watched(model, lambda m: m(ids), layers=[1], keep=0)
    assert (atlas.layers, atlas.texts) == ([1], [])
    with refuses(ValueError, "layers must be among 0 or 1", "[5]"):
        watched(model, lambda m: m(ids), layers=[5])


def test_a_model_that_does_not_run_on_headwise_is_refused() -> None:
    model = llama()
    model.set_attn_implementation("eager")
    with refuses(ValueError, "must run on headwise", "'eager'", "attn_implementation"):
        watched(model, lambda m: m(ids_of(1, 5)))


def test_what_fails_inside_leaves_no_hook_behind() -> None:
    model = llama()
    with pytest.raises(RuntimeError, match="stop"), lens.watch(model):
        raise RuntimeError("stop")
    assert not any(module._forward_pre_hooks for module in model.modules())
    with torch.no_grad():
        model(ids_of(1, 5))


def test_names_of_models() -> None:
    model = llama()
    assert model_name(model) == "LlamaForCausalLM"
    model.config._name_or_path = "some/where/model/"
    assert model_name(model) == "where"


def test_threads_and_precisions_change_little() -> None:
    model, ids = llama(), ids_of(1, 40)
    wide = watched(model, lambda m: m(ids)).numbers
    for dtype, rtol in ((torch.float32, 1e-4), (torch.bfloat16, 0.2)):
        numbers = watched(model.to(dtype), lambda m: m(ids)).numbers
        np.testing.assert_allclose(numbers["entropy"], wide["entropy"], rtol=rtol)
    assert headwise.get_num_threads() >= 1
