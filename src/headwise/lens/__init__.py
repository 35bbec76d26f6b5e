"""The lens: models or recordings in; tables, pictures and pages of heads out.

`watch` a model while it runs, or `profile` a recording (`load`, `load_sample`): either gives an
`Atlas`. `compare` two of them; `write_page` and `write_picture` show one.
"""

from pathlib import Path

from headwise.lens.atlas import Atlas, merge
from headwise.lens.comparison import Change, Comparison, compare
from headwise.lens.measures import MEASURES, Measure
from headwise.lens.profile import profile
from headwise.lens.recording import Layer, Recording, RecordingError, load, load_sample
from headwise.lens.watching import watch

__all__ = [
    "MEASURES",
    "Atlas",
    "Change",
    "Comparison",
    "Layer",
    "Measure",
    "Recording",
    "RecordingError",
    "compare",
    "load",
    "load_sample",
    "merge",
    "profile",
    "watch",
    "write_page",
    "write_picture",
]


def write_page(atlas: Atlas, path: str | Path) -> None:
    """Write a self-contained HTML page; needs Jinja2 (``pip install 'headwise[look]'``).

    Examples
    --------
    >>> import os, tempfile
    >>> from headwise import lens
    >>> found = lens.profile(lens.load_sample())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lens.write_page(found, os.path.join(folder, "headwise.html"))
    """
    from headwise.lens.page import render_page

    Path(path).write_text(render_page(atlas.report()), encoding="utf-8")


def write_picture(atlas: Atlas, path: str | Path, *, measure: str = "induction") -> None:
    """Draw the layer × head grid of a measure and the maps of the clearest heads.

    Needs Matplotlib (``pip install 'headwise[look]'``).

    Parameters
    ----------
    atlas
        From `profile` or `watch`.
    path
        Ends in ``.png``, ``.svg`` or another ending that Matplotlib knows.
    measure
        A name from `MEASURES`; where this atlas has no number of that name, its first one counts.

    Raises
    ------
    ValueError
        Where the measure or the ending is unknown.
    """
    from headwise.lens.pictures import draw_sheet

    numbers = atlas.numbers
    missing = measure in MEASURES and measure not in numbers
    draw_sheet(atlas.report(), path, next(iter(numbers)) if missing else measure)
