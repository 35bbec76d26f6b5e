"""From a recording to an atlas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.atlas import Atlas
from headwise.lens.recording import Layer, Recording, RecordingError
from headwise.lens.texts import LayerTexts, Tokens, text_views, wanted
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
    layers: list[LayerTexts] = []
    for done, (number, layer) in enumerate(recording.layers.items()):
        if progress:
            progress(done / len(recording.layers), f"layer {number}")
        texts = LayerTexts(number, keep=1)
        texts.add(attention.observe(layer), attention.first_position, attention.tokens)
        atlas.add(number, texts.close())
        layers.append(texts)
    name = recording.text[:60] or PurePath(recording.source).name or "recording"
    atlas.texts = text_views(layers, 0, name, recording.tokens, int(attention.position))
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


@dataclass(frozen=True)
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
                statistics=wanted(
                    recording.query_len, recording.kv_len, placed=self.placed, tokens=self.tokens
                ),
                query_offset=self.query_offset,
                scale=self.scale,
                num_threads=self.num_threads,
            )
        except (TypeError, ValueError) as error:
            raise RecordingError(str(error)) from None
        if np.isneginf(seen.lse).all():
            raise RecordingError(f"the mask blocks every key for every query: {_POLARITY}")
        return seen

    @property
    def placed(self) -> bool:
        """Whether it is known where the queries stand among the keys."""
        return self.query_offset is not None or self.recording.query_len == self.recording.kv_len

    @property
    def tokens(self) -> Tokens | None:
        """The tokens, where queries and keys are the same and some repeat."""
        r = self.recording
        if r.token_ids is None or r.query_len != r.kv_len:
            return None
        tokens = Tokens(np.asarray(r.token_ids).reshape(1, -1))
        return tokens if tokens.repeated.any() else None

    @property
    def position(self) -> int:
        """Where the first query stands on the keys' axis."""
        r = self.recording
        return int(resolve_offset(self.query_offset, None, r.query_len, r.kv_len))

    @property
    def first_position(self) -> Array | None:
        """The same for `LayerTexts`."""
        return np.array([self.position]) if self.placed else None
