"""The cases: what the generator makes, what headwise and the oracle pass, all 25 reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import conformance
from headwise.conformance.cases import FUNCTIONS, LEVELS, PATH, decode, encode, select
from headwise.conformance.judge import judge
from headwise.conformance.mistakes import MISTAKES
from headwise.conformance.outcome import invoke
from headwise.conformance.plain import STEPS, Plain

ROOT = Path(__file__).resolve().parents[2]
CASES = conformance.load_cases()


def test_the_file_is_what_the_generator_makes() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "make_cases.py"), "-"]
    made = json.loads(subprocess.run(script, check=True, capture_output=True, text=True).stdout)
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    assert made["groups"] == kept["groups"]
    assert [c["name"] for c in made["cases"]] == [c["name"] for c in kept["cases"]]
    for new, old in zip(made["cases"], kept["cases"], strict=True):
        assert rounded(new) == rounded(old), f"{new['name']}: run scripts/make_cases.py"


def rounded(x: Any) -> Any:
    """Forget the last digits, which another processor may find otherwise."""
    if isinstance(x, dict):
        return {key: rounded(value) for key, value in x.items()}
    if isinstance(x, list):
        return [rounded(value) for value in x]
    return pytest.approx(x, rel=1e-7, abs=1e-12) if isinstance(x, float) else x


def test_cases_are_well_formed() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        assert case.group in conformance.groups()
        assert case.level in LEVELS
        assert case.function in FUNCTIONS
        assert case.asks.endswith(".")
        want = case.expected_array()
        assert want is not None or set(case.expected) in ({"raises"}, {"law"})
        assert case.size < 2000 or "fill" in str(case.inputs)


def test_all_public_reports_are_cases() -> None:
    reports = [case for case in CASES if "report-" in case.name]
    numbers = sorted(int(case.name.split("report-")[1]) for case in reports)
    assert numbers == list(range(1, 26))
    for case in reports:
        assert case.source == f"public fault report {int(case.name[-2:])}"


def test_headwise_passes_everything() -> None:
    report = conformance.check("headwise")
    assert {r.verdict.status for r in report.results} == {"pass"}, report.unexplained()
    assert len(report.results) == len(CASES)


def test_the_oracle_misses_only_refusals_and_memory() -> None:
    report = conformance.check("numpy")
    assert {r.case.name for r in report.of("fail")} == {
        "bias/report-04",  # takes any argument that computes
        "causal/report-08",
        "softcap/zero",
        "grouped/report-18",  # repeats heads
    }


LEAKS = {f"mask/{name}" for name in ("report-03", "inf-key", "nan-value", "inf-value")}
LEAKS |= {"bias/hidden-nan-key", "causal/later-nan"}
UNASKED = {"bias/report-04", "causal/report-08"}  # a float triangle is added, a corner is guessed
WEAKNESSES = {
    "torch": LEAKS | UNASKED | {"attention/report-14", "attention/lengths-differ"},
    "onnxruntime": LEAKS
    | UNASKED
    | {"half/report-12"}
    | {f"empty/{name}" for name in ("report-15", "batch", "queries", "head-dim", "value-dim")},
}


@pytest.mark.parametrize("name", WEAKNESSES)
def test_libraries_show_their_known_weaknesses_and_nothing_else(name: str) -> None:
    report = conformance.check(name)
    assert {r.case.name for r in report.of("fail")} == WEAKNESSES[name]
    assert report.counts(level="core")["fail"] == 0
    assert report.counts()["pass"] > 70


def test_jax_computes_float64_in_float32() -> None:
    report = conformance.check("jax", only=["attention"], core=True)
    names = {r.case.name for r in report.of("fail")}
    assert names == {"attention/float64", "attention/rows-far-apart"}
    assert [f.mistake.name for f in report.findings] == ["lower precision"]


def test_the_steps_without_mistakes_pass_everything() -> None:
    target = Plain().target()
    with np.errstate(all="ignore"):
        bad = [c.name for c in CASES if judge(c, invoke(target, c)).status != "pass"]
    assert bad == ["grouped/report-18"]  # a law about memory, which steps in NumPy do not keep


def test_every_mistake_fails_some_case_and_replaces_known_steps() -> None:
    with np.errstate(all="ignore"):
        for mistake in MISTAKES:
            assert mistake.steps.keys() <= STEPS.keys()
            target = Plain(mistake).target()
            cases = (c for c in CASES if "law" not in c.expected and c.size < 2000)
            assert any(judge(c, invoke(target, c)).status == "fail" for c in cases), mistake.name


def test_arrays_come_back_as_they_were_described() -> None:
    for array in (np.array([[1.5, -2]], np.float32), np.zeros((0, 2)), np.array([True, False])):
        back = decode(encode(array))
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)
    odd = decode({"dtype": "float16", "shape": [3], "data": ["nan", "inf", "-inf"]})
    assert str(odd.tolist()) == "[nan, inf, -inf]"


def test_select() -> None:
    names = [c.name for c in select(CASES, ["split", "mask/report-*", "one-key"])]
    assert "split/two-heads" in names
    assert "mask/report-01" in names
    assert "attention/one-key" in names
    assert {c.level for c in select(CASES, [], core=True)} == {"core"}
