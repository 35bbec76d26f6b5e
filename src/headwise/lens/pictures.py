"""Pictures without a browser: PNG, SVG and whatever else Matplotlib writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.lens.measures import MEASURES
from headwise.lens.profile import Profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHADES = "Blues"
_LABELLED_CELLS = 400  # a grid with more cells shows colours only


def draw(profile: Profile, path: str | Path, measure: str) -> None:
    """Draw a profile and save it; `headwise.lens.write_picture` documents it."""
    import matplotlib as mpl

    name = measure if measure in profile.numbers else next(iter(profile.numbers))
    with mpl.rc_context({"svg.hashsalt": "headwise", "font.size": 9, "svg.fonttype": "none"}):
        figure = _figure(profile, name)
        metadata: dict[str, Any] = {"Date": None} if Path(path).suffix == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=metadata)


def _figure(profile: Profile, name: str) -> Figure:
    from matplotlib.figure import Figure

    heads = _clearest(profile)
    width = max(4.0, 1.6 + 0.42 * profile.recording.num_heads)
    height = max(5.2, 1.8 + 0.32 * len(profile.layers))
    figure = Figure(figsize=(width + 6.4, height), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=[width, 6.4])
    left, right = parts
    _draw_grid(left.subplots(), profile, name)
    axes = np.atleast_1d(right.subplots(2, 2)).ravel()
    for axis, entry in zip(axes, [*heads, *[None] * 4][:4], strict=True):
        if entry is None:
            axis.set_axis_off()
        else:
            _draw_map(axis, profile, entry)
    figure.suptitle(_title(profile))
    return figure


def _title(profile: Profile) -> str:
    r = profile.recording
    seen = "causal" if r.causal else "not causal"
    return f"{r.model or r.source}, {r.kv_len:,} tokens, {seen}"


def _clearest(profile: Profile) -> list[tuple[int, int, str, float]]:
    """Return the strongest head of up to four kinds: (row, head, kind, number), no head twice."""
    found: dict[tuple[int, int], tuple[int, int, str, float]] = {}
    for m in profile.kinds():
        if m.name == "normalized_entropy":
            continue
        for row, head, number in profile.ranked(m, 4):
            if (row, head) not in found:
                found[row, head] = (row, head, m.kind, number)
                break
    return list(found.values())[:4]


def _draw_grid(axis: Axes, profile: Profile, name: str) -> None:
    m, table = MEASURES[name], profile.numbers[name]
    top = profile.top(name)
    image = axis.imshow(table, cmap=_SHADES, vmin=0, vmax=top, aspect="auto")
    axis.set_title(f"{name}: {m.meaning}", fontsize=9)
    axis.set_xlabel("head")
    axis.set_ylabel("layer")
    axis.set_xticks(range(table.shape[1]))
    axis.set_yticks(range(table.shape[0]), [str(layer) for layer in profile.layers])
    if table.size <= _LABELLED_CELLS:
        for (row, head), x in np.ndenumerate(table):
            ink = "white" if x > 0.6 * top else "black"
            axis.text(head, row, f"{x:.2f}", ha="center", va="center", color=ink, fontsize=7)
    if axis.figure is not None:
        axis.figure.colorbar(image, ax=axis, location="bottom", shrink=0.5, label=f"{m.unit}")


def _draw_map(axis: Axes, profile: Profile, found: tuple[int, int, str, float]) -> None:
    row, head, kind, number = found
    layer, r = profile.layers[row], profile.recording
    head_map = profile.maps[layer]
    image = np.sqrt(head_map.weights[head])
    edges = (-0.5, r.kv_len - 0.5, r.query_len - 0.5, -0.5)
    axis.imshow(image, cmap=_SHADES, vmin=0, vmax=1, extent=edges, interpolation="nearest")
    axis.set_xlim(-0.5 - 0.03 * r.kv_len, r.kv_len - 0.5)  # the first key stands clear of the frame
    axis.spines[:].set_color("0.8")
    pooled = "" if head_map.block == 1 else f", mean of {head_map.block}×{head_map.block}"
    axis.set_title(f"head {layer}.{head}: {kind} {number:.2f}", fontsize=9)
    axis.set_xlabel(f"key (colour: √weight{pooled})", fontsize=7)
    axis.set_ylabel("query", fontsize=7)
    axis.tick_params(labelsize=7)
