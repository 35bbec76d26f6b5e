"""Models from folders, and texts as their tokens: what ``headwise look --model`` reads."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.atlas import Atlas
from headwise.lens.token_texts import token_texts
from headwise.lens.views import TextView
from headwise.lens.watching import watch

WEIGHTS = ("*.safetensors", "*.bin")
REPEATED = 4  # texts of random tokens, for steadier numbers


class ModelError(ValueError):
    """A model or a text that cannot be read; the message says why and what to do."""


@dataclass(frozen=True)
class Text:
    """A text as tokens: ``ids`` is ``(length,)``, ``tokens`` the text of each, where known."""

    name: str
    ids: Array
    tokens: list[str] | None = None


@dataclass(frozen=True)
class Model:
    """A model that runs on headwise, and its tokenizer, where the folder has one."""

    model: Any
    tokenizer: Any
    name: str

    @property
    def config(self) -> Any:
        """The model's configuration; of the part that reads texts, where there are several."""
        return self.model.config.get_text_config()

    @property
    def num_layers(self) -> int:
        """How many layers it has, as its configuration says."""
        return int(getattr(self.config, "num_hidden_layers", 0) or 0)

    @property
    def most_tokens(self) -> int | None:
        """How many tokens it can read; None where positions have no end."""
        tables = [
            int(module.num_embeddings)
            for name, module in self.model.named_modules()
            if name.rpartition(".")[2] in {"position_embeddings", "wpe", "embed_positions"}
            and hasattr(module, "num_embeddings")
        ]
        most = getattr(self.config, "max_position_embeddings", None)
        return min(*tables, most or tables[0]) if tables else None

    def run(self, ids: Array) -> None:
        """Have the model read texts of one length, ``(batch, length)``."""
        import torch

        inputs = {"input_ids": torch.from_numpy(np.ascontiguousarray(ids))}
        if self.model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = inputs["input_ids"]
        with torch.no_grad():
            self.model(**inputs)

    def read(self, name: str, text: str, length: int | None) -> tuple[Text, list[str]]:
        """Return a text's tokens, and what was left out."""
        if self.tokenizer is None:
            raise ModelError(
                f"{self.name} has no tokenizer beside it, so that it reads no texts: put its "
                "tokenizer.json there, or use --random-repeat"
            )
        coded = self.tokenizer(text, return_offsets_mapping=bool(self.tokenizer.is_fast))
        ids = np.asarray(coded["input_ids"])
        if len(ids) <= len(self.tokenizer("")["input_ids"]):  # which begin and end every text
            raise ModelError(f"{name} is empty: expected a text, got no token of one")
        if "offset_mapping" in coded:
            tokens = pieces(text, coded["offset_mapping"], self.tokenizer, ids)
        else:
            tokens = token_texts(self.tokenizer, ids) or []
        most = min(n for n in (length, self.most_tokens, len(ids)) if n is not None)
        notes = [*self._beyond(name, most), *self._unknown(name, ids[:most])]
        if most == len(ids):
            return Text(name, ids, tokens), notes
        why = "as asked for" if most == length else "the model has positions for no more"
        note = f"{name}: the first {most:,} of {len(ids):,} tokens, {why}."
        return Text(name, ids[:most], tokens[:most]), [note, *notes]

    def _beyond(self, name: str, length: int) -> list[str]:
        """Say that a text is longer than those that the model was made for."""
        made_for = getattr(self.config, "max_position_embeddings", None)
        if not made_for or length <= made_for:
            return []
        return [f"{name}: {length:,} tokens, and the model was made for at most {made_for:,}."]

    def _unknown(self, name: str, ids: Array) -> list[str]:
        """Say that some tokens stand for different pieces of the text."""
        count = int(np.count_nonzero(ids == getattr(self.tokenizer, "unk_token_id", None)))
        if count < 2:
            return []
        token = self.tokenizer.unk_token
        return [f"{name}: {count:,} tokens are {token} and count as copies of one another."]

    def repeated(self, count: int, seed: int = 0) -> list[Text]:
        """Return texts of ``count`` random tokens that come twice, behind a first token."""
        first = getattr(self.tokenizer, "bos_token_id", None)
        first = getattr(self.config, "bos_token_id", None) if first is None else first
        most = self.most_tokens
        if most is not None and 2 * count + 1 > most:
            raise ModelError(
                f"--random-repeat must be at most {(most - 1) // 2}, got {count}: {self.name} has "
                f"positions for {most} tokens"
            )
        special = set(getattr(self.tokenizer, "all_special_ids", ()))
        usable = np.array([n for n in range(self.config.vocab_size) if n not in special])
        rng = np.random.default_rng(seed)
        texts = []
        for number in range(REPEATED):
            some = rng.choice(usable, count, replace=count > len(usable))
            ids = np.concatenate([some[:1] if first is None else [first], some, some])
            tokens = token_texts(self.tokenizer, ids)
            texts.append(Text(f"{count} random tokens, twice ({number + 1})", ids, tokens))
        return texts


def pieces(text: str, offsets: Any, tokenizer: Any, ids: Array) -> list[str]:
    """Return the piece of a text that each token stands for, with what lies before it.

    Tokens that stand for none, such as those that begin and end a text, have their own names; of
    several that share a character the first one has it.
    """
    found, done = [], 0
    for (begin, end), number in zip(offsets, ids, strict=True):
        if end > begin:
            found.append(text[min(done, begin) if end > done else end : end])
            done = max(done, end)
        else:
            found.append(str(tokenizer.convert_ids_to_tokens(int(number))))
    return found


def load_model(path: Path) -> Model:
    """Read a model from a folder with ``config.json`` and weights, or from a GGUF file.

    Raises
    ------
    ModelError
        Where that fails; the message says why.
    """
    _need("torch", "transformers")
    import torch
    import transformers

    import headwise.adapters.transformers as adapter

    folder, extra = _find(path)
    if extra:
        _need("gguf", "accelerate")
    logging: Any = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):  # bars of several libraries, one after another
            model = transformers.AutoModel.from_pretrained(
                folder, attn_implementation=adapter.NAME, dtype=torch.float32, **extra
            )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
        raise ModelError(f"{path} cannot be loaded as a model: {error}") from None
    model.config.use_cache = False
    name = extra.get("gguf_file", "").removesuffix(".gguf") or folder.resolve().name
    if name == "model":
        name = folder.resolve().parent.name
    return Model(model.eval(), _tokenizer(folder, extra), name)


def _need(*modules: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise ModelError(
            f"looking at such a model needs {' and '.join(missing)}: pip install "
            "'headwise[transformers]'. Recorded queries, keys and values can be looked at without"
        )


def _find(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a model, and what else its loader must be told."""
    if not path.exists():
        raise ModelError(f"--model: {path} does not exist (models are not downloaded)")
    if path.suffix == ".gguf":
        return path.parent, {"gguf_file": path.name}
    if not path.is_dir():
        raise ModelError(f"--model: {path} is no folder and no .gguf file")
    for folder in (path, *sorted(p for p in path.iterdir() if p.is_dir())):
        if (folder / "config.json").exists() and any(folder.glob(w) for w in WEIGHTS):
            return folder, {}
    found = sorted(path.glob("*.gguf"))
    if len(found) == 1:
        return path, {"gguf_file": found[0].name}
    names = ", ".join(file.name for file in found)
    raise ModelError(
        f"--model: {path} holds several models: name one of {names}"
        if found
        else f"--model: {path} holds no model: expected config.json and .safetensors files, or one "
        ".gguf file"
    )


def _tokenizer(folder: Path, extra: dict[str, Any]) -> Any:
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(folder, **extra)
    except (OSError, ValueError, KeyError, TypeError, json.JSONDecodeError):
        return None


def look(
    model: Model,
    texts: list[Text],
    *,
    layers: list[int] | None = None,
    induction_distance: int | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Atlas:
    """Have a model read texts and return the atlas of its heads.

    Texts of one length that follow one another are read together where ``induction_distance`` says
    that they are random tokens that repeat.
    """
    runs = [texts] if induction_distance is not None else [[text] for text in texts]
    layers_read = model.num_layers if layers is None else len(layers)
    total, done = max(1, len(runs) * layers_read), 0

    def seen(module: str) -> None:
        nonlocal done
        done += 1
        if progress:
            progress(min(done / total, 0.99), module)

    with watch(
        model.model,
        layers=layers,
        keep=len(texts) if induction_distance is None else 1,
        induction_distance=induction_distance,
        progress=seen,
    ) as atlas:
        for run in runs:
            model.run(np.stack([text.ids for text in run]))
    atlas.model = model.name
    atlas.texts = _named(atlas.texts, texts)
    return atlas


def _named(views: list[TextView], texts: list[Text]) -> list[TextView]:
    """Give views the names and tokens of their texts; several may be of one."""
    each = max(1, len(views) // max(1, len(texts)))
    named = []
    for number, view in enumerate(views):
        text = texts[min(number // each, len(texts) - 1)]
        stack = view.name[view.name.rindex(" (") :] if each > 1 and " (" in view.name else ""
        tokens = text.tokens if view.kv_len == len(text.tokens or []) else view.tokens
        named.append(replace(view, name=text.name + stack, tokens=tokens))
    return named
