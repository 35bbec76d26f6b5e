"""Pictures without a browser: what they show, and that the same report gives the same bytes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import lens
from headwise.lens.pictures import draw_difference, draw_grid, draw_head, draw_sheet
from headwise.lens.views import Report
from tests.reports import long_report, random_report, sample_report


@pytest.fixture(scope="module")
def sample() -> Report:
    return sample_report()


def words_in(path: Path) -> str:
    return " ".join("".join(ET.parse(path).getroot().itertext()).split())


DRAWINGS: dict[str, Callable[[Report, Path], None]] = {
    "grid": lambda report, path: draw_grid(report, "induction", path),
    "head": lambda report, path: draw_head(report, report.layers[0], 0, path),
    "sheet": lambda report, path: draw_sheet(report, path, "induction"),
    "difference": lambda report, path: draw_difference(report, report, "entropy", path),
}


@pytest.mark.parametrize("name", DRAWINGS)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_same_report_gives_the_same_bytes(name: str, ending: str, tmp_path: Path) -> None:
    report = random_report(12)
    paths = [tmp_path / f"{n}.{ending}" for n in range(2)]
    for path in paths:
        DRAWINGS[name](report, path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert len(first) > 3_000


def test_a_sheet_names_the_strongest_heads(sample: Report, tmp_path: Path) -> None:
    draw_sheet(sample, tmp_path / "a.svg", "induction")
    words = words_in(tmp_path / "a.svg")
    for part in ("SmolLM2-135M-Instruct, 156 tokens", "causal", "head 18.6: induction 0.58"):
        assert part in words


def test_a_heads_caption_tells_what_is_shown(tmp_path: Path) -> None:
    report = replace(sample_report(block=4), notes=["Three texts are left out."])
    draw_head(report, 18, 6, tmp_path / "a.svg")
    words = words_in(tmp_path / "a.svg")
    for part in ("Head 18.6, 156 queries down", "mean weight of 4 × 4 pairs", "Three texts"):
        assert part in words


def test_tokens_are_written_beside_short_texts(tmp_path: Path) -> None:
    names = ["a", " b", "$x_1$", "<b>", "\u202e", "\ud800", "\n", "", "日", "]]>"]
    draw_head(random_report(10, tokens=names, causal=False), 0, 1, tmp_path / "a.svg")
    words = words_in(tmp_path / "a.svg")
    for part in ("·b", "$x_1$", "<b>", "‹202E›", "‹D800›", "⏎", "(empty)", "]]>"):
        assert part in words


@pytest.mark.parametrize("name", DRAWINGS)
def test_long_texts_and_many_heads(name: str, tmp_path: Path) -> None:
    DRAWINGS[name](long_report(3_000, layers=24, heads=20), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_what_a_picture_cannot_show(tmp_path: Path) -> None:
    report, path = random_report(6), tmp_path / "a.png"
    with pytest.raises(ValueError, match="one of entropy, induction, got 'size'"):
        draw_grid(report, "size", path)
    with pytest.raises(ValueError, match=r"no map of head 4\.0"):
        draw_head(report, 4, 0, path)
    with pytest.raises(ValueError, match=r"no map of head 0\.2"):
        draw_head(report, 0, 2, path)
    with pytest.raises(ValueError, match="below 1, got 1"):
        draw_head(report, 0, 0, path, text=1)
    with pytest.raises(ValueError, match="the same heads"):
        draw_difference(report, random_report(6, heads=3), "entropy", path)
    with pytest.raises(ValueError, match="xyz"):
        draw_grid(report, "entropy", tmp_path / "a.xyz")


def test_reports_that_lack_something(tmp_path: Path) -> None:
    report = random_report(6)
    gaps: Any = {"induction": np.array([[np.nan, 0.5]]), "entropy": np.full((1, 2), np.nan)}
    draw_sheet(replace(report, texts=[]), tmp_path / "a.png", "induction")
    draw_grid(replace(report, numbers=gaps), "induction", tmp_path / "b.svg")
    assert "Grey: no number" in words_in(tmp_path / "b.svg")
    draw_grid(replace(report, numbers=gaps), "entropy", tmp_path / "c.png")
    bare = replace(report.texts[0], distances=[])
    draw_head(replace(report, texts=[bare]), 0, 0, tmp_path / "d.png")


def test_a_profile_makes_a_picture(tmp_path: Path) -> None:
    found = lens.profile(lens.load_sample())
    with pytest.raises(ValueError, match=r"measure must be one of entropy.*got 'no such measure'"):
        lens.write_picture(found, tmp_path / "a.png", measure="no such measure")
    lens.write_picture(found, tmp_path / "a.png", measure="next_token")  # not of causal heads
    lens.write_picture(found, tmp_path / "a.svg")
    assert "head 18.6: induction 0.58" in words_in(tmp_path / "a.svg")
