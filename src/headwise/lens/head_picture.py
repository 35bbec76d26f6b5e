"""One head as a picture: its map with strips at the sides, and its weights by distance."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.pooling import factor, means
from headwise.lens.tokens import marked
from headwise.lens.views import Layer, Report, TextView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

_SHADES = ("#ffffff", "#cde2f3", "#70b0dc", "#1f6eb0", "#09305c")  # those of the page
_STRIP, _LINE = "#9db4cc", "#1b68ad"
_NAMED = 40  # longer texts show places instead of tokens
_BARS = 400  # numbers along a side, at most


def shades() -> Colormap:
    """Return the colours of all pictures: zero is the paper's own."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("headwise", _SHADES)


def head_figure(report: Report, text: TextView, layer: Layer, head: int) -> Figure:
    """Return the figure of one head."""
    from matplotlib.figure import Figure

    tall = min(max(text.query_len / text.kv_len, 0.25), 1.2)
    figure = Figure(figsize=(10.2, 2.2 + 5.6 * tall), layout="constrained")
    widths, heights = [12, 1.4, 7], [1.4, 12 * tall]
    spec = figure.add_gridspec(2, 3, width_ratios=widths, height_ratios=heights)
    axis = figure.add_subplot(spec[1, 0])
    image = paint_map(axis, text, layer, head)
    _name_tokens(axis, text)
    _paint_received(figure.add_subplot(spec[0, 0], sharex=axis), text, layer, head)
    _paint_entropy(figure.add_subplot(spec[1, 1], sharey=axis), text, layer, head)
    if text.distances:
        _paint_distances(figure.add_subplot(spec[1, 2]), text, layer, head)
    bar = figure.colorbar(image, ax=axis, location="bottom", shrink=0.5, aspect=30)
    bar.set_label(f"{_what(text)}, on a square-root scale")
    _label_roots(bar, float(image.get_clim()[1]))
    told = caption(text, f"{layer}.{report.number(head)}", report.notes)
    figure.supxlabel(fill(told, 150), fontsize=8, color="0.35")
    return figure


def paint_map(axis: Axes, text: TextView, layer: Layer, head: int) -> Any:
    """Paint a head's weights, queries down and keys across, coloured by their square roots."""
    roots = np.sqrt(np.asarray(text.layers[layer].block_mean[head], np.float64))
    top = float(roots.max(initial=0.0)) or 1.0
    down, across = roots.shape[0] * text.block[0], roots.shape[1] * text.block[1]
    edges = (-0.5, across - 0.5, down - 0.5, -0.5)
    image = axis.imshow(
        roots,
        cmap=shades(),
        vmin=0,
        vmax=top,
        extent=edges,
        interpolation="nearest",
        aspect="auto",
    )
    axis.set_xlim(-0.5 - 0.02 * text.kv_len, text.kv_len - 0.5)  # the first key stands clear
    axis.set_ylim(text.query_len - 0.5, -0.5)
    axis.spines[:].set_color("0.8")
    axis.set_xlabel("key")
    axis.set_ylabel("query")
    return image


def caption(text: TextView, name: str, notes: list[str]) -> str:
    """Return what a reader must know of a head's picture."""
    cells = f"Each cell is the {_what(text)}" if text.block != (1, 1) else "Each cell is one weight"
    parts = [
        f"Head {name}, {text.query_len:,} queries down, {text.kv_len:,} keys across.",
        f"{cells}; the weights of a query add to 1.",
        "Above: mean weight a key receives from the queries that see it; at the side: entropy of a "
        "query's weights, in nats.",
        "Heads are not averaged.",
    ]
    return " ".join([*parts, *notes])


def _what(text: TextView) -> str:
    if text.block == (1, 1):
        return "weight"
    return f"mean weight of {text.block[0]:,} × {text.block[1]:,} pairs"


def _label_roots(bar: Any, top: float) -> None:
    places = np.linspace(0, top, 5)
    bar.set_ticks(places, labels=[f"{place * place:.2g}" for place in places])


def _name_tokens(axis: Axes, text: TextView) -> None:
    """Write tokens at the sides of a short text."""
    if text.tokens is None or text.kv_len > _NAMED:
        return
    names = [_drawable(marked(token, 12)) for token in text.tokens]
    axis.set_xticks(range(text.kv_len), names, rotation=60, ha="right", fontsize=7)
    places = [query + text.first_position for query in range(text.query_len)]
    labels = [names[place] if 0 <= place < len(names) else str(place) for place in places]
    axis.set_yticks(range(text.query_len), labels, fontsize=7)


def _drawable(name: str) -> str:
    """Return a name with the signs that the font lacks as boxes, which needs no warning."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    return "".join(sign if font.get_char_index(ord(sign)) else "□" for sign in name)


def _bars(numbers: Array) -> tuple[Array, Array]:
    """Return the numbers along a side, means where there are too many, and their edges."""
    by = factor(len(numbers), _BARS)
    heights = means(np.asarray(numbers, np.float64), by, np.ones(len(numbers)))
    edges = np.minimum(np.arange(len(heights) + 1) * by, len(numbers)) - 0.5
    return heights, edges


def _paint_received(axis: Axes, text: TextView, layer: Layer, head: int) -> None:
    axis.stairs(*_bars(text.layers[layer].received[head]), fill=True, color=_STRIP)
    axis.set_ylabel("received", rotation=0, ha="right", va="center", fontsize=7)
    axis.set_ylim(0, None)
    axis.tick_params(labelsize=7, labelbottom=False)
    axis.spines[["top", "right"]].set_visible(False)


def _paint_entropy(axis: Axes, text: TextView, layer: Layer, head: int) -> None:
    bars = _bars(text.layers[layer].entropy[head])
    axis.stairs(*bars, fill=True, orientation="horizontal", color=_STRIP)
    axis.set_title("entropy", fontsize=7)
    axis.set_xlim(0, None)
    axis.tick_params(labelsize=7, labelleft=False)
    axis.spines[["top", "right"]].set_visible(False)


def _paint_distances(axis: Axes, text: TextView, layer: Layer, head: int) -> None:
    weights = np.nan_to_num(np.asarray(text.layers[layer].normalized_offset_mass[head], np.float64))
    used = np.flatnonzero(np.any(text.layers[layer].normalized_offset_mass > 0, axis=0))
    shown = slice(used.min(initial=len(weights)), used.max(initial=0) + 1)
    classes = text.distances[shown]
    if not classes:
        axis.set_axis_off()
        return
    edges = np.array([classes[0][0] - 0.5, *(last + 0.5 for _, last in classes)])
    axis.stairs(weights[shown], _spread(edges), baseline=None, color=_LINE)
    ticks = _distance_ticks(classes[0][0], classes[-1][1])
    axis.set_xticks(_spread(np.array(ticks)), [f"{tick:,}" for tick in ticks])
    axis.set_title("mean weight by distance", fontsize=9)
    axis.set_xlabel("tokens from the query back to the key")
    axis.set_ylim(0, None)
    axis.tick_params(labelsize=7)
    axis.spines[["top", "right"]].set_visible(False)


def _spread(distances: Array) -> Array:
    """Return places on an axis that is logarithmic in both directions."""
    return np.asarray(np.sign(distances) * np.log2(1 + np.abs(distances)))


def _distance_ticks(first: int, last: int) -> list[int]:
    sizes = [0, 1, 3, 10, 30, 100, 1000, 10_000, 100_000, 1_000_000]
    return sorted(
        {sign * size for size in sizes for sign in (1, -1) if first <= sign * size <= last}
    )
