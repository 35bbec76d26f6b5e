"""The terminal summary: what was looked at, the grid of one measure, the clearest heads."""

from __future__ import annotations

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from headwise.lens.atlas import Atlas
from headwise.lens.comparison import Comparison
from headwise.lens.measures import MEASURES, Measure
from headwise.lens.ranking import ends
from headwise.lens.views import Report

_STOPS = ((205, 226, 243), (112, 176, 220), (31, 110, 176), (9, 48, 92))
_ROOMY = 110  # columns from which on kinds are explained beside their heads
_FAINT = 0.05  # cells below this share of the scale keep the terminal's own background


def print_summary(console: Console, atlas: Atlas, measure: str, seconds: dict[str, float]) -> None:
    """Print the summary of an atlas."""
    report = atlas.report()
    console.print(Text(report.title, style="bold"), Text(" · ".join(report.facts)))
    for note in report.notes:
        console.print(note, style="dim")
    console.print()
    console.print(_grid(report, MEASURES[measure], console))
    console.print()
    console.print(_kinds(atlas, console.width))
    console.print()
    spent = ", ".join(f"{what} {_duration(s)}" for what, s in seconds.items())
    console.print(f"time: {spent}", style="dim")


def _grid(report: Report, m: Measure, console: Console) -> RenderableType:
    table = report.numbers[m.name]
    low, top = ends(m.name, table)
    narrow = 7 + 5 * table.shape[1] > console.width
    width = max(5, *(len(str(layer)) for layer in report.layers))
    lines = [Text.assemble((m.name, "bold"), f": {m.meaning} ({m.unit})")]
    lines.append(
        Text(" " * (width - 4) + "layer " + _header(report, table.shape[1], narrow), style="dim")
    )
    for layer, numbers in zip(report.layers, table, strict=True):
        line = Text(f" {layer:>{width}} ", style="dim")
        for x in numbers:
            share = (float(x) - low) / (top - low)
            line.append(_cell(float(x), share, narrow), _style(share))
        lines.append(line)
    return Group(*lines)


def _header(report: Report, heads: int, narrow: bool) -> str:
    if not narrow:
        return "".join(f"{report.number(head):^5}" for head in range(heads))
    return "".join(f"{report.number(head):<8}" for head in range(0, heads, 4))


def _cell(x: float, share: float, narrow: bool) -> str:
    if np.isnan(x):
        return " –" if narrow else "  –  "
    if narrow:
        return f"{min(99, round(100 * share)):>2}"
    return f"{x:^5.2f}" if abs(x) < 10 else f"{x:^5.1f}" if abs(x) < 1000 else f"{x:^5.0f}"


def _style(share: float) -> str:
    if np.isnan(share) or share < _FAINT:
        return ""
    x = min(share, 1.0) * (len(_STOPS) - 1)
    k = min(int(x), len(_STOPS) - 2)
    red, green, blue = (
        round(a + (b - a) * (x - k)) for a, b in zip(_STOPS[k], _STOPS[k + 1], strict=True)
    )
    ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"
    return f"{ink} on rgb({red},{green},{blue})"


def _kinds(atlas: Atlas, width: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for m in atlas.kinds():
        heads = Text()
        for name, number in atlas.strongest(m.name):
            clear = number >= m.least
            heads.append(f"{name} ", "bold" if clear else "dim")
            heads.append(f"{number:.2f}   ", "" if clear else "dim")
        meaning = [Text(m.meaning, style="dim")] if width >= _ROOMY else []
        table.add_row(Text(m.kind), heads, *meaning)
    return table


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def print_comparison(console: Console, found: Comparison, count: int, measure: str | None) -> None:
    """Print the heads that changed most, in all measures or in one."""
    before, after = found.names
    console.print(Text(f"{before} → {after}", style="bold"))
    what = f"{len(found.layers)} layers × {len(found.heads)} heads, {len(found.before)} measures"
    console.print(what, style="dim")
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("head", "amount", "measure", "before", "after"):
        table.add_column(title, justify="left" if title in {"head", "measure"} else "right")
    changes = found.most_changed(count, measure)
    for change in changes:
        numbers = (f"{x:.3g}" for x in (change.before, change.after))
        table.add_row(change.name, f"{change.amount:.2f}", change.most, *numbers)
    if changes and changes[0].amount > 0:
        console.print(table)
        console.print()
        console.print(
            "amount: root mean square of a head's changes, in units of how far heads lie apart",
            style="dim",
        )
    else:
        console.print("no head changed")
