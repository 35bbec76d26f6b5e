"""The lens: recorded queries, keys and values in; tables, pictures and pages of heads out.

`load` reads a file, `load_sample` the embedded one; `profile` computes the numbers of every head;
`write_page`, `write_picture`, `write_csv` and `write_json` show them.
"""

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


def __getattr__(name: str) -> object:
    """Import what needs Jinja2 or Matplotlib only when it is used."""
    if name == "write_page":
        from headwise.lens.page import write_page

        return write_page
    if name == "write_picture":
        from headwise.lens.pictures import write_picture

        return write_picture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
