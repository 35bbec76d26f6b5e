"""From a recording to an atlas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np

from headwise.lens.atlas import Atlas
from headwise.lens.recording import Layer, Recording, RecordingError
from headwise.lens.texts import LayerTexts, Place, Tokens, text_view, wanted
from headwise.masks import causal
from headwise.observation import Observation, observe
from headwise.reference import resolve_offset

_POLARITY = "in headwise True means may attend; where True means masked, pass ~mask"


def profile(
    recording: Recording,
    *,
    query_offset: Any = None,
    scale: float | None = None,
    num_threads: int | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Atlas:
    """Compute the numbers and maps of every head.

    Parameters
    ----------
    recording
        From `load` or `load_sample`.
    query_offset, scale, num_threads
        As in `headwise.observe`.
    progress
        Called now and then with the share of the work that is done, 0 to 1, and a few words.

    Raises
    ------
    RecordingError
        Where the mask or the lengths do not fit.

    Examples
    --------
    >>> from headwise import lens
    >>> found = lens.profile(lens.load_sample())
    >>> found.strongest("previous_token", 1)[0][0]
    '16.0'
    """
    attention = _Attention(recording, query_offset, scale, num_threads)
    atlas = Atlas(model=recording.model or recording.source, facts=facts_of(recording))
    layers: dict[Any, LayerTexts] = {}
    for done, (number, layer) in enumerate(recording.layers.items()):
        if progress:
            progress(done / len(recording.layers), f"layer {number}")
        texts = layers[number] = LayerTexts(keep=1)
        texts.add(attention.observe(layer), attention.place)
        atlas.add(number, texts.close())
    name = recording.text[:60] or PurePath(recording.source).name or "recording"
    atlas.texts = [text_view(layers, 0, name, recording.tokens)]
    if progress:
        progress(1.0, "done")
    return atlas


def facts_of(r: Recording) -> list[str]:
    """Return what was looked at, a few words each."""
    length = (
        f"{r.kv_len:,} tokens" if r.query_len == r.kv_len else f"{r.query_len:,} × {r.kv_len:,}"
    )
    heads = f"{len(r.layers)} layers × {r.num_heads} heads"
    if r.num_kv_heads != r.num_heads:
        heads += f" over {r.num_kv_heads} key/value heads"
    seen = "causal" if r.causal else "every key visible" if r.mask is None else "masked"
    single = all(layer.query.dtype.itemsize == 4 for layer in r.layers.values())
    return [length, heads, seen, "float32" if single else "float64"]


@dataclass
class _Attention:
    """How the layers of a recording attend."""

    recording: Recording
    query_offset: Any
    scale: float | None
    num_threads: int | None

    def observe(self, layer: Layer) -> Observation:
        """Observe one layer, or say why that cannot be done."""
        recording = self.recording
        mask: Any = recording.mask
        if recording.causal:
            mask = causal() if mask is None else causal() & mask
        try:
            seen = observe(
                layer.query[None],
                layer.key[None],
                layer.value[None],
                mask,
                statistics=wanted(self.place),
                query_offset=self.query_offset,
                scale=self.scale,
                num_threads=self.num_threads,
            )
        except (TypeError, ValueError) as error:
            raise RecordingError(str(error)) from None
        if np.isneginf(seen.lse).all():
            raise RecordingError(f"the mask blocks every key for every query: {_POLARITY}")
        return seen

    @cached_property
    def place(self) -> Place:
        """Where queries and keys stand."""
        r = self.recording
        known = self.query_offset is not None or r.query_len == r.kv_len
        position = int(resolve_offset(self.query_offset, None, r.query_len, r.kv_len))
        return Place(r.query_len, r.kv_len, position if known else None, tokens=self._tokens())

    def _tokens(self) -> Tokens | None:
        """Return the tokens, where queries and keys are the same and some repeat."""
        r = self.recording
        if r.token_ids is None or r.query_len != r.kv_len:
            return None
        tokens = Tokens(np.asarray(r.token_ids).reshape(1, -1))
        return tokens if tokens.repeated.any() else None
