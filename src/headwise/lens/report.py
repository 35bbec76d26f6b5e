"""A profile as the report that pages and pictures are made from."""

from __future__ import annotations

from pathlib import PurePath

import numpy as np

from headwise._arrays import Array
from headwise.lens.profile import HeadMap, Profile
from headwise.lens.views import LayerView, Report, TextView


def report_of(profile: Profile) -> Report:
    """Return what a page shows of a profile."""
    recording = profile.recording
    block = next(iter(profile.maps.values())).block
    text = TextView(
        name=recording.text[:60] or PurePath(recording.source).name or "recording",
        tokens=recording.tokens,
        query_len=recording.query_len,
        kv_len=recording.kv_len,
        first_position=recording.kv_len - recording.query_len,
        block=(block, block),
        distances=[],
        layers={layer: _view(head_map) for layer, head_map in profile.maps.items()},
    )
    notes = []
    if profile.empty_rows:
        notes.append(f"{profile.empty_rows:,} queries see no key and count in no mean.")
    title = recording.model or recording.source or "Attention heads"
    return Report(title, facts(profile), profile.layers, profile.numbers, [text], notes)


def facts(profile: Profile) -> list[str]:
    """Return what was looked at, in a few words each."""
    r = profile.recording
    length = (
        f"{r.kv_len:,} tokens" if r.query_len == r.kv_len else f"{r.query_len:,} × {r.kv_len:,}"
    )
    heads = f"{len(r.layers)} layers × {r.num_heads} heads"
    if r.num_kv_heads != r.num_heads:
        heads += f" over {r.num_kv_heads} key/value heads"
    seen = "causal" if r.causal else "every key visible" if r.mask is None else "masked"
    return [length, heads, seen, "float32" if _single(profile) else "float64"]


def _single(profile: Profile) -> bool:
    return all(layer.query.dtype.itemsize == 4 for layer in profile.recording.layers.values())


def _view(head_map: HeadMap) -> LayerView:
    """Return a layer's maps; a profile keeps no distances, and means of long texts only."""
    weights: Array = head_map.weights
    return LayerView(
        block_mean=weights,
        block_max=weights if head_map.block == 1 else None,
        received=head_map.received,
        entropy=head_map.entropy,
        offset_mass=np.zeros((len(weights), 0)),
    )
