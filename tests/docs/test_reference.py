"""The reference of statistics is what its script makes: no table or picture is out of date."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.lens import MEASURES
from headwise.statistics import SECOND_PASS, STATISTICS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "statistics.md"
PICTURES = sorted((ROOT / "docs" / "images").glob("stat-*.svg"))


def test_tables_and_pictures_are_up_to_date() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "make_reference.py"), "--check"]
    run = subprocess.run(script, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", [*STATISTICS, *SECOND_PASS, *MEASURES])
def test_every_statistic_has_a_row(name: str) -> None:
    assert re.search(rf"^\| `{name}\W", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_picture_is_shown_and_all_are_small() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(PICTURES) == 10
    for path in PICTURES:
        assert f"(images/{path.name})" in text
    assert sum(path.stat().st_size for path in PICTURES) < 500_000


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_pictures_are_for_light_and_dark_pages_and_ask_for_nothing(path: Path) -> None:
    svg = path.read_text(encoding="utf-8")
    assert "prefers-color-scheme:dark" in svg
    assert 'role="img"' in svg
    assert "<title>" in svg
    assert not re.search(r"href|url\(|@import|<script", svg)


def test_the_script_says_what_is_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from scripts import make_reference

    stale = PAGE.read_text(encoding="utf-8").replace("| nats |", "| bits |")
    assert "| bits |" in stale
    assert make_reference.page(stale) == PAGE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="has the blocks"):
        make_reference.page("")
