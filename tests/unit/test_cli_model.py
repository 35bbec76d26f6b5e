"""``headwise look --model`` and ``headwise compare``, with a tiny model in a folder."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import cli, lens
from headwise.cli_look import numbers_of
from headwise.lens import models
from headwise.lens.token_texts import token_texts
from tests.support import refuses

pytest.importorskip("transformers")

TEXT = "the cat sat on the mat , the dog sat on the log . <script> the cat sat"


def tokenizer_of(words: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {word: number for number, word in enumerate(["<s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<unk>")


def llama(seed: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 3, "vocab_size": 30}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "bos_token_id": 0}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    llama(0).save_pretrained(path)
    tokenizer_of(sorted(set(TEXT.split()))).save_pretrained(path)
    (path / "text.txt").write_text(TEXT)
    return path


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def look(*arguments: str) -> int:
    return cli.main(["look", *arguments])


def test_a_model_reads_a_text(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = str(folder / "text.txt")
    assert look("--model", str(folder), "--text", text, "--atlas", "a.nc") == 0
    out = capsys.readouterr().out
    assert "tiny 18 tokens · 3 layers × 4 heads over 2 key/value heads" in out
    page = Path("headwise.html").read_text(encoding="utf-8")
    assert "text.txt" in page
    assert "<script> the" not in page  # a token is a token
    atlas = lens.Atlas.load("a.nc")
    assert (atlas.model, atlas.layers, atlas.num_texts) == ("tiny", [0, 1, 2], 1)


def test_several_texts_merge_and_standard_input_is_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = str(folder / "text.txt")
    monkeypatch.setattr("sys.stdin", io.StringIO("the dog sat on the cat"))
    assert look("--model", str(folder), "--text", text, "--text", "-", "--atlas", "a.nc") == 0
    assert "2 texts, 24 tokens" in capsys.readouterr().out
    both = lens.Atlas.load("a.nc")
    parts = []
    for words in (TEXT, "the dog sat on the cat"):
        Path("one.txt").write_text(words)
        assert look("--model", str(folder), "--text", "one.txt", "--atlas", "b.nc", "--quiet") == 0
        parts.append(lens.Atlas.load("b.nc"))
    for name, table in lens.merge(parts).numbers.items():
        np.testing.assert_allclose(both.numbers[name], table, rtol=1e-6, err_msg=name)


def test_length_layers_and_heads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--length", "7", "--layers", "0,2", "--heads", "1-2", "--csv", "a.csv"]
    assert look("--model", str(folder), "--text", str(folder / "text.txt"), *options) == 0
    out = capsys.readouterr().out
    assert "7 tokens · 2 layers" in out
    assert "text.txt: the first 7 of 18 tokens, as asked for." in out
    lines = Path("a.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [
        ["0", "1"], ["0", "2"], ["2", "1"], ["2", "2"],
    ]  # fmt: skip


def test_random_tokens_read_twice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert look("--model", str(folder), "--random-repeat", "20", "--measure", "induction") == 0
    out = capsys.readouterr().out
    assert "4 texts, 164 tokens" in out
    assert "induction (diagonal)" in out


def test_a_model_with_learned_positions_reads_what_it_can(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        vocab_size=30, max_position_embeddings=10,
    )  # fmt: skip
    BertModel(config).save_pretrained(tmp_path / "bert")
    tokenizer_of(sorted(set(TEXT.split()))).save_pretrained(tmp_path / "bert")
    model = models.load_model(tmp_path / "bert")
    text, notes = model.read("x", TEXT, None)
    assert (len(text.ids), len(text.tokens or [])) == (10, 10)
    assert notes == ["x: the first 10 of 18 tokens, the model has positions for no more."]
    assert "".join(text.tokens or []) == TEXT[: TEXT.index(" on the log")]
    assert models.look(model, [text]).num_texts == 1
    _, notes = model.read("y", "the strange bird sat", None)
    assert notes == ["y: 2 tokens are <unk> and count as copies of one another."]
    assert len(model.repeated(4)[0].ids) == 9
    with refuses(ValueError, "--random-repeat must be at most 4, got 5", "bert", "10 tokens"):
        model.repeated(5)


@pytest.mark.parametrize("empty", ["", " \n"])
def test_a_text_of_nothing_is_refused_also_where_tokens_begin_and_end_it(
    folder: Path, empty: str
) -> None:
    from tokenizers.processors import TemplateProcessing

    model = models.load_model(folder)
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A <s>", special_tokens=[("<s>", 0)]
    )
    assert list(model.read("x", "the", None)[0].ids[[0, -1]]) == [0, 0]
    with refuses(ValueError, "x is empty", "expected a text"):
        model.read("x", empty, None)


def test_encoder_and_decoder_are_told_apart(tmp_path: Path) -> None:
    from transformers import T5Config, T5Model

    config = T5Config(
        d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2, vocab_size=30,
        decoder_start_token_id=0,
    )  # fmt: skip
    T5Model(config).save_pretrained(tmp_path / "t5")
    tokenizer_of(sorted(set(TEXT.split()))).save_pretrained(tmp_path / "t5")
    model = models.load_model(tmp_path / "t5")
    atlas = models.look(model, [model.read("x", TEXT, None)[0]])
    assert len(atlas.layers) == 6
    assert {str(layer).rpartition(".")[0] for layer in atlas.layers} == {
        "encoder.SelfAttention", "decoder.SelfAttention", "decoder.EncDecAttention",
    }  # fmt: skip
    cross = [str(layer).startswith("decoder.EncDec") for layer in atlas.layers]
    assert np.isnan(atlas.numbers["previous_token"][:, 0]).tolist() == cross
    assert not np.isnan(atlas.numbers["entropy"]).any()


def test_two_models_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llama(1).save_pretrained("other")
    tokenizer_of(sorted(set(TEXT.split()))).save_pretrained("other")
    for name, path in (("a.nc", str(folder)), ("b.nc", "other")):
        text = str(folder / "text.txt")
        assert look("--model", path, "--text", text, "--atlas", name, "--quiet", "--no-page") == 0
    assert cli.main(["compare", "a.nc", "b.nc", "--png", "a.png", "--csv", "a.csv"]) == 0
    out = capsys.readouterr().out
    assert "tiny → other" in out
    assert out.count("\n") > 12
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert len(Path("a.csv").read_text().splitlines()) == 13
    assert cli.main(["compare", "a.nc", "a.nc"]) == 0
    assert "no head changed" in capsys.readouterr().out
    assert cli.main(["compare", "a.nc", "b.nc", "--measure", "entropy", "--count", "2"]) == 0
    assert capsys.readouterr().out.count("entropy") == 2


@pytest.mark.parametrize(("arguments", "words"), [
    (["--text", "a.txt"], "--text needs --model"),
    (["--random-repeat", "5"], "--random-repeat needs --model"),
    (["--model", "nowhere", "--text", "-"], "nowhere does not exist"),
    (["--model", "."], "--text FILE (or -), or --random-repeat"),
    (["--model", ".", "--random-repeat", "5"], "holds no model: expected config.json"),
    (["--model", ".", "--random-repeat", "1"], "--random-repeat must be at least 2, got 1"),
    (["--model", ".", "--text", "none.txt"], "none.txt cannot be read: No such file"),
    (["--model", ".", "--text", "-", "--layers", "a"], "--layers must be numbers and ranges"),
    (["a.npz", "--model", ".", "--text", "-"], "a recording (a.npz) and --model were given"),
    (["--model", ".", "--text", "-", "--num-heads", "4"], "--num-heads needs a recording"),
    (["--model", ".", "--random-repeat", "5", "--length", "4"], "expected one of them"),
    (["--model", ".", "--random-repeat", "5", "--text", "-"], "expected one of them"),
    (["--model", ".", "--text", "-", "--layers", "3-1"], "--layers: 3-1 names none"),
    (["--causal"], "--causal needs a recording, got none"),
    (["--heads", "99"], "heads must be among [0, 1, 2"),
    (["--atlas", "a.txt"], "--atlas: a.txt must end in .nc"),
])  # fmt: skip
def test_wrong_usage_is_explained(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("x"))
    assert look(*arguments) == 1
    assert words in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_layers_that_are_not_there_are_named(folder: Path) -> None:
    model = models.load_model(folder)
    with refuses(ValueError, "layers must be among 0, 1 or 2", "[7]"):
        models.look(model, [model.read("x", TEXT, None)[0]], layers=[7])


def test_without_transformers_it_says_which_extra(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with refuses(
        models.ModelError, "torch and transformers", "pip install 'headwise[transformers]'"
    ):
        models.load_model(folder)


def test_what_else_is_missing_is_known_before_any_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    for place in ("headwise.cli_files.find_spec", "importlib.util.find_spec"):
        monkeypatch.setattr(place, lambda n: None if n in {"pyarrow", "gguf"} else find(n))
    assert look("--parquet", "a.parquet", "--csv", "a.csv") == 1
    assert "--parquet needs pyarrow: pip install 'headwise[parquet]'" in capsys.readouterr().err
    Path("a.gguf").write_bytes(b"")
    assert look("--model", "a.gguf", "--random-repeat", "5") == 1
    assert "needs gguf: pip install 'headwise[transformers]'" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["a.gguf"]


def test_compare_refuses_what_is_no_atlas(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "a.nc", "b.nc"]) == 1
    assert "a.nc does not exist" in capsys.readouterr().err


def test_numbers_and_ranges() -> None:
    assert numbers_of("--layers", "0-2, 7,9-9") == [0, 1, 2, 7, 9]


def test_token_texts_join_to_the_text() -> None:
    class Bytes:
        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode("utf-8", "replace")

    words = "naïve – 日本語 🙂 <b>"
    found = token_texts(Bytes(), np.frombuffer(words.encode(), np.uint8))
    assert found is not None
    assert "".join(found) == words
    assert len(found) == len(words.encode())
