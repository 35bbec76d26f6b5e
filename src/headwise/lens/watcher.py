"""What becomes of the attention calls of a model that is watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise._arrays import Array, dtype_name, to_numpy
from headwise._errors import listing
from headwise.lens import sums
from headwise.lens.atlas import Atlas
from headwise.lens.calls import Part, Plain, observe_part, parts_of
from headwise.lens.given_tokens import GivenTokens
from headwise.lens.keeping import give_back
from headwise.lens.texts import LayerTexts, Place, Tokens, text_view, wanted
from headwise.lens.token_texts import token_texts
from headwise.lens.views import Layer, TextView

_LARGE = 4 << 20  # bytes of a layer's queries from which on memory counts
Key = tuple[str, int]  # a stack of layers, and the number of one
Seen = dict[Key, tuple[LayerTexts, int]]  # one text as all layers saw it: theirs, and which of them


@dataclass
class _Reading:
    """The texts that one layer is reading: together, or one by one where they are padded."""

    texts: list[LayerTexts]
    padding: list[int]  # before the first token of each
    one_by_one: bool


class Watcher:
    """Takes attention calls one by one; `close` completes the atlas."""

    def __init__(
        self,
        atlas: Atlas,
        names: dict[Any, Any],
        *,
        layers: Iterable[int] | None,
        keep: int,
        induction_distance: int | None,
        progress: Callable[[str], None],
    ) -> None:
        self.progress = progress
        self.atlas, self.names, self.keep = atlas, names, keep
        if isinstance(layers, int | str):
            raise TypeError(f"layers must be a list of numbers, got {layers!r}")
        self.layers = None if layers is None else set(layers)
        self.induction_distance = induction_distance
        self.tokens = GivenTokens()
        self._reading: dict[Key, _Reading] = {}
        self._sums: dict[Key, sums.Sums] = {}
        self._kept: list[Seen] = []
        self._numbers: set[int] = set()
        self._last_tokens: dict[int | None, Tokens] = {}
        self._facts: dict[str, Any] = {}

    def see(self, call: Any) -> tuple[Any, Any]:
        """Compute an attention call, remember what its heads did, and return its output."""
        name = self.names.get(call.module)
        if name is None:  # of another model
            return call.attend(), None
        self._numbers.add(name.index)
        if self.layers is not None and name.index not in self.layers:
            return call.attend(), None
        parts = parts_of(call)
        reading = self._begun((name.stack, name.index), call, parts)
        output = None
        for k, part in enumerate(parts):
            if not part.empty:
                output = self._see_part(call, name.name, reading, k, part)
        self._note(call)
        if call.query.numel() * call.query.element_size() > _LARGE:
            give_back()
        self.progress(name.name)
        return (output if parts[0].whole else call.attend()), None

    def _begun(self, key: Key, call: Any, parts: list[Part]) -> _Reading:
        """Return what the layer is reading; where new texts begin, the old ones end."""
        reading, goes_on = self._reading.get(key), _position(call) != 0
        if reading is not None and goes_on and len(reading.texts) == len(parts):
            return reading
        if reading is not None:
            self._end_texts()
        one_by_one = parts[0].item is not None
        keeps = [int(k < self.keep) if one_by_one else self.keep for k in range(len(parts))]
        padding = [part.keys.start for part in parts]
        self._reading[key] = _Reading([LayerTexts(n) for n in keeps], padding, one_by_one)
        return self._reading[key]

    def _see_part(self, call: Any, module: str, reading: _Reading, k: int, part: Part) -> Any:
        place = self._place(call, module, reading.padding[k], part)
        seen = observe_part(call, part, wanted(place))
        reading.texts[k].add(Plain(seen), place)
        return seen.output

    def _place(self, call: Any, module: str, padding: int, part: Part) -> Place:
        queries = part.queries.stop - part.queries.start
        keys = part.keys.stop - part.keys.start
        if call.query_offset is None:
            return Place(queries, keys)
        dropped = max(0, call.first_key - padding)
        first = call.query_offset + part.queries.start - part.keys.start + dropped
        ids = self.tokens.of(module, call.scores_shape[2], call.first_key + call.query_offset)
        tokens = None
        if ids is not None:
            ids = ids if part.item is None else ids[part.item : part.item + 1]
            tokens = self._tokens(part.item, ids[:, padding : padding + first + queries])
        return Place(queries, keys, first, dropped, tokens, self.induction_distance)

    def _tokens(self, item: int | None, ids: Array) -> Tokens:
        """Return the tokens of a text, or of all: the layer before's where they are equal."""
        last = self._last_tokens.get(item)
        if last is None or not np.array_equal(last.ids, ids):
            last = self._last_tokens[item] = Tokens(ids)
        return last

    def _note(self, call: Any) -> None:
        if not self._facts:
            heads, kv_heads = call.query.shape[1], call.key.shape[1]
            over = "" if heads == kv_heads else f" over {kv_heads} key/value heads"
            self._facts = {"over": over, "dtype": dtype_name(to_numpy("query", call.query))}

    def _end_texts(self) -> None:
        """Add the sums of all texts that are being read, and keep views of the first ones."""
        kept: dict[int, Seen] = {}
        for key, reading in self._reading.items():
            for k, texts in enumerate(reading.texts):
                if texts.queries == 0:
                    continue
                sums.add(self._sums.setdefault(key, {}), texts.close())
                for item in range(len(texts.kept)):
                    number = k if reading.one_by_one else item
                    kept.setdefault(number, {})[key] = (texts, item)
        for _, text in sorted(kept.items()):
            if len(self._kept) < self.keep:
                self._kept.append(text)
        self._reading = {}

    def close(self, tokenizer: Any) -> None:
        """Complete the atlas with all that was seen."""
        self._end_texts()
        if self.layers is not None and self._numbers and not self.layers & self._numbers:
            numbers = listing(str(n) for n in sorted(self._numbers))
            raise ValueError(f"layers must be among {numbers}, got {sorted(self.layers)}")
        names = layer_names(self._sums)
        for key, layer in names.items():
            self.atlas.add(layer, self._sums[key])
        for number, text in enumerate(self._kept):
            self.atlas.texts += self._views(text, number, names, tokenizer)
        self._set_facts()

    def _views(
        self, text: Seen, number: int, names: dict[Key, Layer], tokenizer: Any
    ) -> list[TextView]:
        """Return the views of a text: of each stack of layers its own, where they read others."""
        groups: dict[Any, dict[Layer, tuple[LayerTexts, int]]] = {}
        for key, (texts, item) in text.items():
            ids = None if texts.tokens is None else texts.tokens.ids[item]
            group = (texts.queries, texts.keys, None if ids is None else ids.tobytes())
            groups.setdefault(group, {})[names[key]] = (texts, item)
        views = []
        for layers in groups.values():
            texts, item = next(iter(layers.values()))
            shown = None if texts.tokens is None else token_texts(tokenizer, texts.tokens.ids[item])
            name = _name_of(shown, number) + (_stack_of(layers) if len(groups) > 1 else "")
            views.append(text_view({x: t for x, (t, _) in layers.items()}, item, name, shown))
        return views

    def _set_facts(self) -> None:
        atlas = self.atlas
        if not atlas.parts:
            return
        texts, rows = atlas.num_texts, max(int(p["rows"].max()) for p in atlas.parts.values())
        atlas.facts = [
            f"{rows:,} tokens" if texts == 1 else f"{texts:,} texts, {rows:,} tokens",
            f"{len(atlas.parts)} layers × {atlas.num_heads} heads{self._facts['over']}",
            str(self._facts["dtype"]),
        ]


def _position(call: Any) -> int | None:
    """Return where the first query stands in its text; None where that has no meaning."""
    return None if call.query_offset is None else int(call.query_offset + call.first_key)


def layer_names(keys: Iterable[Key]) -> dict[Key, Layer]:
    """Return what layers are called: by number, and where there are several stacks by these, too.

    Examples
    --------
    >>> from headwise.lens.watcher import layer_names
    >>> layer_names([("layers.self_attn", 1), ("layers.self_attn", 0)])
    {('layers.self_attn', 1): 1, ('layers.self_attn', 0): 0}
    >>> layer_names([("encoder.layers.attn", 0), ("decoder.layers.attn", 0)])
    {('encoder.layers.attn', 0): 'encoder.0', ('decoder.layers.attn', 0): 'decoder.0'}
    """
    keys = list(keys)
    stacks = {stack: stack.split(".") for stack, _ in keys}
    if len(stacks) < 2:
        return {key: key[1] for key in keys}
    common = set.intersection(*(set(parts) for parts in stacks.values()))
    short = {s: ".".join(p for p in parts if p not in common) for s, parts in stacks.items()}
    return {key: f"{short[key[0]] or 'self'}.{key[1]}" for key in keys}


def _name_of(tokens: list[str] | None, number: int) -> str:
    words = "".join(tokens or []).split()
    return " ".join(words)[:60] or f"text {number + 1}"


def _stack_of(layers: Iterable[Layer]) -> str:
    names = {str(layer).rpartition(".")[0] for layer in layers}
    return f" ({', '.join(sorted(names))})"
