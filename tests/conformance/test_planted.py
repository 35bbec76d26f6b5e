"""Planted mistakes are found and named, each by evidence alone."""

from __future__ import annotations

import pytest

from headwise.conformance.terminal import Painter, render
from tests.conformance.planted_attention import ATTENTION
from tests.conformance.planted_heads import HEADS
from tests.conformance.planted_options import OPTIONS, RIGHT
from tests.conformance.support import CASES, report_of

NEAR = {
    "heads": ("split", "combine", "per-head"),
    "attention": ("attention", "mask", "bias"),
    "options": (
        "mask",
        "bias",
        "causal",
        "grouped",
        "window",
        "softcap",
        "sinks",
        "lengths",
        "half",
    ),
}
PLANTED = [
    *((name, source, NEAR["heads"]) for name, source in HEADS),
    *((name, source, NEAR["attention"]) for name, source in ATTENTION),
    *((name, source, NEAR["options"]) for name, source in OPTIONS),
]
# What every textbook solution of the exercise does, beside the mistake that is planted.
TEXTBOOK = {
    "rows without keys are NaN, no keys raise",
    "rows without keys are NaN",
    "no keys raise",
    "hidden values leak",
    "float mask read as boolean",
    "whole numbers of any size as a mask",
    "whole numbers beside 1 hide",
    "result in float64",
    "split_heads takes three dimensions only",
    "remainder dropped in silence",
    "split_heads copies",
    "computed in 16 bits",
    "scores kept in 16 bits",
    "hidden scores set to -1e9",
}


@pytest.mark.parametrize(
    ("name", "source", "groups"),
    [pytest.param(*p, id=f"{i}-{p[0]}") for i, p in enumerate(PLANTED)],
)
def test_a_planted_mistake_is_named(name: str, source: str, groups: tuple[str, ...] | None) -> None:
    report = report_of(source, [c for c in CASES if groups is None or c.group in groups])
    names = [finding.mistake.name for finding in report.findings]
    assert name in names
    others = [n for n in names if n not in TEXTBOOK or n == name]
    assert others[0] == name, names
    unexplained = [r for r in report.unexplained() if r.case.level == "core"]
    assert len(unexplained) <= 1  # shapes that happen to fit, or not, in this style of code
    assert all(r.outcome.kind in {"raised", "refused"} for r in unexplained)


@pytest.mark.parametrize("result", ["output * 1.37 + 0.1", "np.sin(output)", "0 * output + 7"])
def test_what_no_mistake_explains_is_called_unknown(result: str) -> None:
    source = RIGHT.replace(
        "return out.astype", "output = out\n    out = RESULT\n    return out.astype"
    )
    report = report_of(source.replace("RESULT", result), [c for c in CASES if c.level == "core"])
    assert not [finding.mistake.name for finding in report.findings]
    assert "Unknown mistake  (" in render(report, Painter(color=False, width=100))


def test_there_are_enough() -> None:
    assert len({name for name, *_ in PLANTED}) >= 60
