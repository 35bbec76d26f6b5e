"""Lines over a growing number: how time and memory grow, as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import growth, queries
from benchmarks.picture import COLORS, canvas

Line = list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a line for each peer, and where given a dashed one for theory."""

    title: str
    across: str
    lines: dict[str, Line]
    logarithmic: bool = False
    theory: Line | None = None


def draw_growth(points: Sequence[growth.Point], caption: str, path: Path) -> None:
    """Draw time and memory against the number of tokens."""
    seconds = _lines((p.peer, p.tokens, p.seconds) for p in points)
    memory = _lines((p.peer, p.tokens, p.bytes and p.bytes / 2**20) for p in points)
    ours = seconds["headwise"]
    last, took = ours[-1]
    theory = [(tokens, took * (tokens / last) ** 2) for tokens, _ in ours]
    panels = [
        Panel("seconds; dashed: quadratic", "tokens", seconds, True, theory),
        Panel("MiB beyond inputs and output", "tokens", memory, True),
    ]
    _draw(panels, f"{growth.SHAPE}, float32; {caption}", path)


def draw_queries(points: Sequence[queries.QueryPoint], caption: str, path: Path) -> None:
    """Draw time against the number of queries."""
    times = _lines((p.peer, p.queries, p.seconds and p.seconds * 1e3) for p in points)
    ours = {"headwise": times["headwise"]}
    panels = [Panel("milliseconds", "queries", times), Panel("headwise alone", "queries", ours)]
    _draw(panels, f"{queries.SHAPE}, float32, keys from memory; {caption}", path)


def _lines(points: Any) -> dict[str, Line]:
    lines: dict[str, Line] = {}
    for peer, x, y in points:
        if y:
            lines.setdefault(peer, []).append((x, y))
    return lines


def _draw(panels: list[Panel], caption: str, path: Path) -> None:
    with canvas(path, columns=len(panels), figsize=(7.5, 3.2)) as (figure, axes):
        for panel, place in zip(panels, axes, strict=True):
            _draw_panel(place, panel)
        axes[0].legend(frameon=False, fontsize=7)
        figure.supxlabel(caption, x=0.01, ha="left", fontsize=6.5, color="0.35")


def _draw_panel(axes: Any, panel: Panel) -> None:
    for peer, line in panel.lines.items():
        x, y = zip(*line, strict=True)
        axes.plot(x, y, color=COLORS[peer], label=peer, lw=1.4, marker=".", ms=4)
    if panel.theory:
        axes.plot(*zip(*panel.theory, strict=True), color="0.4", lw=0.8, ls="--")
    if panel.logarithmic:
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1024:g}k")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(panel.title, fontsize=8, loc="left")
    axes.set_xlabel(panel.across, fontsize=7)
    axes.tick_params(labelsize=7)
    axes.grid(color="0.92", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
