"""The lens: recorded queries, keys and values in; tables, pictures and pages of heads out.

`load` reads a file, `load_sample` the embedded one; `profile` computes the numbers of every head;
`write_page`, `write_picture`, `write_csv` and `write_json` show them.
"""

from pathlib import Path

from headwise.lens.export import write_csv, write_json
from headwise.lens.measures import MEASURES, Measure
from headwise.lens.profile import HeadMap, Profile, profile
from headwise.lens.recording import Layer, Recording, RecordingError, load, load_sample

__all__ = [
    "MEASURES",
    "HeadMap",
    "Layer",
    "Measure",
    "Profile",
    "Recording",
    "RecordingError",
    "load",
    "load_sample",
    "profile",
    "write_csv",
    "write_json",
    "write_page",
    "write_picture",
]


def write_page(profile: Profile, path: str | Path) -> None:
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
    from headwise.lens.report import report_of

    Path(path).write_text(render_page(report_of(profile)), encoding="utf-8")


def write_picture(profile: Profile, path: str | Path, *, measure: str = "induction") -> None:
    """Draw the layer × head grid of a measure and the maps of the clearest heads.

    Needs Matplotlib (``pip install 'headwise[look]'``).

    Parameters
    ----------
    profile
        From `profile`.
    path
        Ends in ``.png``, ``.svg`` or another ending that Matplotlib knows.
    measure
        A name from ``profile.numbers``; the first one where this profile has none of that name.

    Raises
    ------
    ValueError
        Where the ending is unknown.
    """
    from headwise.lens.pictures import draw_sheet
    from headwise.lens.report import report_of

    name = measure if measure in profile.numbers else next(iter(profile.numbers))
    draw_sheet(report_of(profile), path, name)
