"""Write the tables of ``docs/statistics.md`` and its pictures.

The tables come from headwise's own (`STATISTICS`, `SECOND_PASS`, `MEASURES`) and the pictures from
the embedded sample. ``--check`` writes nothing, names what is out of date and fails where something
is. The text between the tables is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from reference import pictures, tables

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE, IMAGES = DOCS / "statistics.md", DOCS / "images"
_BLOCK = re.compile(r"(<!-- made: ([\w: ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the page with new tables.

    Raises
    ------
    ValueError
        Where the page has no place for one, or a place for none.
    """
    blocks = tables.blocks()
    places = [match[2] for match in _BLOCK.finditer(text)]
    if sorted(places) != sorted(blocks):
        raise ValueError(f"{PAGE.name} has the blocks {places}, expected {list(blocks)}")
    return _BLOCK.sub(lambda match: match[1] + "\n".join([*blocks[match[2]], match[3]]), text)


def files() -> dict[Path, str]:
    """Return what every file should hold."""
    made = {IMAGES / name: svg for name, svg in pictures.drawn().items()}
    return {PAGE: page(PAGE.read_text(encoding="utf-8")), **made}


def main(arguments: list[str]) -> int:
    """Write the files, or check them."""
    stale = [
        path
        for path, text in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is out of date: run scripts/make_reference.py")
        return int(bool(stale))
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
