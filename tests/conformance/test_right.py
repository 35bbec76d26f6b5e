"""Right implementations are not accused: no false alarm, and honest words where one is weak."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from headwise import conformance
from tests.conformance.planted_options import RIGHT as WITH_OPTIONS
from tests.conformance.right import FOUR_LINES, LARGE_NEGATIVE, NO_MASK, RIGHT, TORCH
from tests.conformance.support import report_of


@pytest.mark.parametrize("style", RIGHT)
def test_a_textbook_solution_passes_every_core_case_it_offers(style: str) -> None:
    report = report_of(RIGHT[style])
    assert report.counts(level="core")["fail"] == 0
    assert report.counts(level="core")["pass"] >= 16


def test_a_function_with_every_care_passes_everything_it_offers() -> None:
    report = report_of(WITH_OPTIONS)
    assert report.ok, [(r.case.name, r.verdict.why) for r in report.of("fail")]
    assert report.counts()["pass"] > 110
    assert not report.findings


def test_what_a_textbook_solution_misses_is_named() -> None:
    by_style = {
        FOUR_LINES: "rows without keys are NaN, no keys raise",
        LARGE_NEGATIVE: "hidden scores set to -1e9",
    }
    for source, name in by_style.items():
        found = {
            f.mistake.name: [r.case.name for r in f.results] for f in report_of(source).findings
        }
        assert "mask/report-01" in found[name]
        assert "hidden values leak" in found


def test_a_function_without_a_mask_is_not_blamed_for_it() -> None:
    report = report_of(NO_MASK)
    counts = report.counts("mask")
    assert set(counts) == {"not offered"}
    whys = {r.verdict.why for r in report.results if r.case.group == "mask"}
    assert whys == {"no parameter mask"}


def test_a_mask_without_a_default_is_given_none() -> None:
    source = FOUR_LINES.replace("mask=None", "mask")
    assert report_of(source).counts() == report_of(FOUR_LINES).counts()


@pytest.mark.parametrize("group", ["window", "softcap", "sinks", "lengths", "causal"])
def test_options_without_a_parameter_are_not_offered(group: str) -> None:
    assert report_of(FOUR_LINES).counts(group) == Counter(
        {"not offered": sum(c.group == group and "law" not in c.expected for c in CASES)}
    )


CASES = conformance.load_cases()


def test_a_function_that_does_not_tell_its_parameters() -> None:
    target = "torch.nn.functional:scaled_dot_product_attention"
    report = conformance.check(target, core=True, arrays="torch")
    assert report.ok, [(r.case.name, r.verdict.why) for r in report.of("fail")]
    assert report.counts()["pass"] == 28


def test_tensors_of_torch_are_given_where_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "tensors.py"
    path.write_text(TORCH)
    report = conformance.check(str(path), core=True, arrays="torch")
    assert report.ok, [(r.case.name, r.verdict.why) for r in report.of("fail")]
    assert report.counts()["pass"] == 53
