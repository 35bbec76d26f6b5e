"""Small SVG pictures: the same bytes everywhere, for light and dark pages, in two colours.

Weights are shades of blue, by their square roots; what is pointed at is orange. Both are told apart
by colour-blind readers, and nothing is said by colour alone.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

Array = Any

SHADES = 10
_LIGHT = ("#ffffff", "#cde2f3", "#70b0dc", "#1f6eb0", "#09305c")  # those of the page
_DARK = ("#0d1117", "#193e5c", "#2c74a6", "#7ac1e9", "#ecf8ff")
_RULES = {  # class: (property, on light, on dark)
    "paper": ("fill", "#ffffff", "#0d1117"),
    "soft": ("fill", "#57606a", "#9da7b3"),
    "bar": ("fill", "#7ba4cc", "#4d7ba6"),
    "frame": ("stroke", "#c9d1d9", "#3d444d"),
    "line": ("stroke", "#1b68ad", "#7ac1e9"),
    "mark": ("stroke", "#c8500a", "#ffa05f"),
    "marked": ("fill", "#c8500a", "#ffa05f"),
}


class Drawing:
    """A picture of ``width`` × ``height`` that grows part by part; ``title`` says what it shows."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Write words; kinds: c centred, e to the left of x, s small, soft, b bold, ink."""
        self.parts.append(f'<text x="{_n(x)}" y="{_n(y)}" class="{kind}">{escape(words)}</text>')

    def label(self, x: float, y: float, name: str, words: str) -> None:
        """Write a name in bold letters and words after it."""
        bold = f'<tspan class="b">{escape(name)}</tspan>'
        self.parts.append(f'<text x="{_n(x)}" y="{_n(y)}">{bold} {escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a rectangle."""
        size = f'width="{_n(width)}" height="{_n(height)}"'
        self.parts.append(f'<rect x="{_n(x)}" y="{_n(y)}" {size} class="{kind}"/>')

    def path(self, steps: str, kind: str) -> None:
        """Draw a path."""
        self.parts.append(f'<path d="{steps}" class="{kind}"/>')

    def line(self, points: list[tuple[float, float]], kind: str = "line") -> None:
        """Draw a line from point to point."""
        self.path("M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points), kind)

    def map(
        self, place: tuple[float, float], cell: float, weights: Array, top: float = 1.0
    ) -> None:
        """Paint weights, queries down and keys across, from the top left; ``top`` is darkest."""
        x, y = place
        rows, columns = weights.shape
        shades = shades_of(weights, top)
        runs: dict[int, str] = {}
        for i, row in enumerate(shades):
            j = 0
            for shade, same in groupby(row.tolist()):
                length = len(list(same))
                if shade:
                    runs[shade] = runs.get(shade, "") + f"M{j} {i}.5h{length}"
                j += length
        inner = "".join(f'<path d="{d}" class="s{shade}"/>' for shade, d in sorted(runs.items()))
        self.parts.append(
            f'<g transform="translate({_n(x)} {_n(y)}) scale({_n(cell)})" class="map">{inner}</g>'
        )
        clear = 3.0  # what stands in the first column is not part of the frame
        self.box(x - clear, y, columns * cell + clear, rows * cell, "frame none")

    def bars(self, place: tuple[float, float], width: float, heights: Array) -> None:
        """Draw bars upwards from ``place``; the heights are pixels."""
        (x, y), step = place, width / len(heights)
        tops = "".join(f"V{_n(y - h)}h{_n(step)}" for h in heights)
        self.path(f"M{_n(x)} {_n(y)}{tops}V{_n(y)}z", "bar")

    def svg(self) -> str:
        """Return the file."""
        size = f'width="{self.width}" height="{self.height}"'
        box = f'viewBox="0 0 {self.width} {self.height}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {box} {size} role="img">'
        paper = f'<rect {size} class="paper"/>'
        lines = [f"<title>{escape(self.title)}</title>", _style(), paper, *self.parts]
        return "\n".join([head, *lines, "</svg>"]) + "\n"


def shades_of(weights: Array, top: float = 1.0) -> Array:
    """Return the shade of each weight, 0 (nothing) to `SHADES`, on a square-root scale."""
    roots = np.sqrt(np.clip(np.asarray(weights, np.float64) / top, 0, 1))
    return np.floor(roots * SHADES + 0.5).astype(int)


def _style() -> str:
    plain = (
        "text{font:13px system-ui,sans-serif}.s{font-size:11px}.b{font-weight:600}"
        ".c{text-anchor:middle}.e{text-anchor:end}.none{fill:none}"
        ".line,.mark{fill:none;stroke-width:1.6}.dots{stroke-dasharray:3 3}"
        ".map path{fill:none;stroke-width:1;shape-rendering:crispEdges}"
    )
    return (
        f"<style>\n{plain}\n{_themed(1, _LIGHT)}\n"
        f"@media(prefers-color-scheme:dark){{{_themed(2, _DARK)}}}\n</style>"
    )


def _themed(which: int, stops: tuple[str, ...]) -> str:
    rules = [f".{name}{{{rule[0]}:{rule[which]}}}" for name, rule in _RULES.items()]
    shades = [f".s{k}{{stroke:{_between(stops, k / SHADES)}}}" for k in range(1, SHADES + 1)]
    ink = "#24292f" if which == 1 else "#e6edf3"
    on_dark = "#ffffff" if which == 1 else "#0d1117"
    return "".join([f"text{{fill:{ink}}}.over{{fill:{on_dark}}}", *rules, *shades])


def _between(stops: tuple[str, ...], share: float) -> str:
    """Return the colour at a share of the way from the first stop to the last."""
    x = share * (len(stops) - 1)
    k = min(int(x), len(stops) - 2)
    pairs = [[int(stop[i : i + 2], 16) for stop in stops[k : k + 2]] for i in (1, 3, 5)]
    return "#" + "".join(f"{int(a + (b - a) * (x - k) + 0.5):02x}" for a, b in pairs)


def _n(x: float) -> str:
    """Write a number with at most two decimals."""
    return f"{x:.2f}".rstrip("0").rstrip(".")
