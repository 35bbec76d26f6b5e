"""Pictures without a browser: PNG, SVG and whatever else Matplotlib writes.

`draw_grid` shows one number of every head, `draw_head` one head, `draw_sheet` the grid and the
strongest heads, `draw_difference` two reports' numbers apart. The same report gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.head_picture import head_figure, paint_map, shades
from headwise.lens.measures import MEASURES
from headwise.lens.ranking import ends, kinds, ranked
from headwise.lens.tokens import visible
from headwise.lens.views import Layer, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DIVERGING = "PuOr_r"  # told apart by colour-blind readers, too
_NONE = "0.92"  # the grey of heads that have no number
_LABELLED_CELLS = 400  # a grid with more cells shows colours only


def draw_grid(report: Report, measure: str, path: str | Path) -> None:
    """Draw one number of every head, layers down, heads across.

    Parameters
    ----------
    report
        What to show.
    measure
        A name from ``report.numbers``.
    path
        Ends in ``.png``, ``.svg`` or another ending that Matplotlib knows.

    Raises
    ------
    ValueError
        Where the report has no such measure, or the ending is unknown.

    Examples
    --------
    >>> import os, tempfile
    >>> from headwise import lens
    >>> from headwise.lens.pictures import draw_grid
    >>> report = lens.profile(lens.load_sample()).report()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_grid(report, "induction", os.path.join(folder, "induction.svg"))
    """
    table = _table(report, measure)
    with _style():
        figure = _figure(*_grid_size(table))
        _paint_grid(figure.subplots(), report, measure)
        _paint_title(figure, _title(report))
        _save(figure, path)


def draw_head(report: Report, layer: Layer, head: int, path: str | Path, text: int = 0) -> None:
    """Draw one head: its map, what keys receive, entropies, and mean weight by distance.

    Parameters
    ----------
    report
        What to show.
    layer, head
        The layer's number and the head's column in the tables, both from 0.
    path
        Ends in ``.png``, ``.svg`` or another ending that Matplotlib knows.
    text
        Which of the report's texts, from 0.

    Raises
    ------
    ValueError
        Where the report keeps no such text, layer or head, or the ending is unknown.

    Examples
    --------
    >>> import os, tempfile
    >>> from headwise import lens
    >>> from headwise.lens.pictures import draw_head
    >>> report = lens.profile(lens.load_sample()).report()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_head(report, 18, 6, os.path.join(folder, "18.6.png"))
    """
    if not 0 <= text < len(report.texts):
        raise ValueError(f"text must be below {len(report.texts)}, got {text}")
    view = report.texts[text].layers.get(layer)
    if view is None or not 0 <= head < len(view.block_mean):
        raise ValueError(f"the report keeps no map of head {layer}.{head} for text {text}")
    with _style():
        figure = head_figure(report, report.texts[text], layer, head)
        _paint_title(figure, _title(report))
        _save(figure, path)


def draw_sheet(report: Report, path: str | Path, measure: str) -> None:
    """Draw the grid of a measure, and the map of the strongest head of up to four kinds.

    Parameters
    ----------
    report
        What to show; maps are those of its first text.
    path
        Ends in ``.png``, ``.svg`` or another ending that Matplotlib knows.
    measure
        A name from ``report.numbers``.

    Raises
    ------
    ValueError
        Where the report has no such measure, or the ending is unknown.

    Examples
    --------
    >>> import os, tempfile
    >>> from headwise import lens
    >>> from headwise.lens.pictures import draw_sheet
    >>> report = lens.profile(lens.load_sample()).report()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_sheet(report, os.path.join(folder, "sheet.png"), "induction")
    """
    table, heads = _table(report, measure), _clearest(report)
    width, height = _grid_size(table)
    with _style():
        if not heads:
            draw_grid(report, measure, path)
            return
        figure = _figure(width + 6.4, max(5.2, height))
        parts: Any = figure.subfigures(1, 2, width_ratios=[width, 6.4])
        _paint_grid(parts[0].subplots(), report, measure)
        axes = np.atleast_1d(parts[1].subplots(2, 2)).ravel()
        for axis, entry in zip(axes, [*heads, *[None] * 4][:4], strict=True):
            _paint_clear(axis, report, entry)
        _paint_title(figure, _title(report))
        _save(figure, path)


def draw_difference(report: Report, other: Report, measure: str, path: str | Path) -> None:
    """Draw how much more of a measure each head has in ``report`` than in ``other``.

    Parameters
    ----------
    report, other
        With the same layers and the same number of heads: two texts, two models, before and after.
    measure
        A name from the ``numbers`` of both.
    path
        Ends in ``.png``, ``.svg`` or another ending that Matplotlib knows.

    Raises
    ------
    ValueError
        Where the measure is missing, the heads differ, or the ending is unknown.

    Examples
    --------
    >>> import os, tempfile
    >>> from headwise import lens
    >>> from headwise.lens.pictures import draw_difference
    >>> report = lens.profile(lens.load_sample()).report()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_difference(report, report, "entropy", os.path.join(folder, "same.png"))
    """
    first, second = _table(report, measure), _table(other, measure)
    if report.layers != other.layers or first.shape != second.shape:
        raise ValueError(
            f"the reports must have the same heads, got {first.shape} and {second.shape} "
            f"with layers {report.layers} and {other.layers}"
        )
    with _style():
        figure = _figure(*_grid_size(first))
        _paint_difference(figure.subplots(), report, first - second, measure)
        same = report.facts == other.facts
        first_name = visible(report.title, 60) if same else _title(report)
        _paint_title(figure, f"{first_name}, less {_title(other)}")
        _save(figure, path)


# ---- figures ------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    """Set what pictures depend on; texts are never formulas, and SVG keeps them as texts."""
    import matplotlib as mpl

    settings: Any = {
        "svg.hashsalt": "headwise",
        "svg.fonttype": "none",
        "font.size": 9,
        "text.parse_math": False,
    }
    with mpl.rc_context(settings):
        yield


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Figure, path: str | Path) -> None:
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    metadata: dict[str, Any] = dates.get(Path(path).suffix, {})
    figure.savefig(path, dpi=150, metadata=metadata)


def _paint_title(figure: Figure, title: str) -> None:
    figure.suptitle(fill(title, int(11.5 * figure.get_figwidth())), fontsize=10)


def _title(report: Report) -> str:
    name = visible(report.title, 60)
    return ", ".join([name, *(visible(fact, 60) for fact in report.facts)])


# ---- grids --------------------------------------------------------------------------------------


def _table(report: Report, measure: str) -> Array:
    if measure not in report.numbers:
        names = ", ".join(report.numbers)
        raise ValueError(f"measure must be one of {names}, got {measure!r}")
    return np.asarray(report.numbers[measure], np.float64)


def _grid_size(table: Array) -> tuple[float, float]:
    rows, heads = table.shape
    wide, tall = (0.42, 0.32) if table.size <= _LABELLED_CELLS else (0.2, 0.2)
    return max(5.0, 1.6 + wide * heads), max(3.2, 1.8 + tall * rows)


def _paint_grid(axis: Axes, report: Report, measure: str) -> None:
    table, m = _table(report, measure), MEASURES[measure]
    low, top = ends(measure, table)
    none = ". Grey: no number" if np.isnan(table).any() else ""
    axis.set_title(f"{measure}: {m.meaning}{none}", fontsize=9, wrap=True)
    _paint_cells(axis, table, report, (low, top), colours=shades(), unit=m.unit)


def _paint_difference(axis: Axes, report: Report, table: Array, measure: str) -> None:
    m = MEASURES[measure]
    most = float(np.nanmax(np.abs(table), initial=0.0)) or 1.0
    axis.set_title(f"difference of {measure}: {m.meaning}", fontsize=9, wrap=True)
    _paint_cells(axis, table, report, (-most, most), colours=_DIVERGING, unit=m.unit)


def _paint_cells(
    axis: Axes,
    table: Array,
    report: Report,
    limits: tuple[float, float],
    *,
    colours: Any,
    unit: str,
) -> None:
    low, top = limits
    axis.set_facecolor(_NONE)
    shown = np.ma.masked_invalid(table)
    image = axis.imshow(shown, cmap=colours, vmin=low, vmax=top, aspect="auto")
    axis.set_xlabel("head")
    axis.set_ylabel("layer")
    step = 1 if table.size <= _LABELLED_CELLS else 4
    columns = range(0, table.shape[1], step)
    axis.set_xticks(columns, [str(report.number(column)) for column in columns])
    rows = range(0, table.shape[0], step)
    axis.set_yticks(rows, [str(report.layers[row]) for row in rows])
    if table.size <= _LABELLED_CELLS:
        _write_cells(axis, table, image)
    if axis.figure is not None:
        bar: Any = {"location": "bottom", "shrink": 0.5, "fraction": 0.06, "aspect": 30}
        axis.figure.colorbar(image, ax=axis, label=unit, **bar)


def _write_cells(axis: Axes, table: Array, image: Any) -> None:
    for (row, head), x in np.ndenumerate(table):
        if not np.isfinite(x):
            axis.text(head, row, "–", ha="center", va="center", fontsize=7, color="0.4")
            continue
        red, green, blue, _ = image.cmap(image.norm(x))
        ink = "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"
        words = f"{x:.2f}" if abs(x) < 10 else f"{x:.1f}" if abs(x) < 1000 else f"{x:.0f}"
        axis.text(head, row, words, ha="center", va="center", color=ink, fontsize=7)


# ---- the strongest heads ------------------------------------------------------------------------


def _clearest(report: Report) -> list[tuple[int, int, str, float]]:
    """Return the strongest head of up to four kinds, as (row, head, kind, number), none twice."""
    if not report.texts:
        return []
    found: dict[tuple[int, int], tuple[int, int, str, float]] = {}
    for m in kinds(report.numbers):
        if m.name == "normalized_entropy":
            continue
        for row, head, number in ranked(report.numbers[m.name], 4):
            kept = report.layers[row] in report.texts[0].layers
            if kept and (row, head) not in found:
                found[row, head] = (row, head, m.kind, number)
                break
    return list(found.values())[:4]


def _paint_clear(axis: Axes, report: Report, entry: tuple[int, int, str, float] | None) -> None:
    if entry is None:
        axis.set_axis_off()
        return
    row, head, kind, number = entry
    layer = report.layers[row]
    paint_map(axis, report.texts[0], layer, head)
    axis.set_title(f"head {report.name(row, head)}: {kind} {number:.2f}", fontsize=9)
    axis.xaxis.label.set_fontsize(7)
    axis.yaxis.label.set_fontsize(7)
    axis.tick_params(labelsize=7)
