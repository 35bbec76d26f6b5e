"""The report as text: a table by group, the mistakes, and the smallest failing inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import Any

import numpy as np

from headwise.conformance.cases import Case, groups, is_array
from headwise.conformance.diagnosis import Result
from headwise.conformance.report import Report

SMALL = 24  # arrays of up to so many numbers are shown
COLORS = {"pass": 32, "fail": 31, "faint": 2, "strong": 1}
LISTED = 8  # names of further cases


class Painter:
    """Colours, or none."""

    def __init__(self, color: bool, width: int) -> None:
        self.color, self.width = color, min(width, 100)

    def __call__(self, kind: str, text: str) -> str:
        """Return the text in the colour of its kind."""
        return f"\x1b[{COLORS[kind]}m{text}\x1b[0m" if self.color else text

    def wrapped(self, text: str, indent: str = "") -> str:
        """Break a sentence into lines."""
        return fill(text, self.width, initial_indent=indent, subsequent_indent=indent)


def render(report: Report, paint: Painter, verbose: bool = False) -> str:
    """Return the whole report as text."""
    lines = [paint("strong", f"headwise check {report.target}"), paint("faint", report.about), ""]
    lines += [*_table(report, paint), ""]
    for finding in report.findings:
        mistake, count = finding.mistake, len(finding.results)
        lines.append(paint("strong", f"Looks like: {mistake.name}") + f"  ({_cases(count)})")
        lines.append(paint.wrapped(mistake.says, "  "))
        if finding.against:
            against = ", ".join(finding.against)
            lines.append(paint.wrapped(f"Against it speaks that these pass: {against}.", "  "))
        lines.append(paint.wrapped(f"Remedy: {mistake.remedy}", "  "))
        lines += [*_failures(finding.results, paint, verbose), ""]
    for kind, results in _by_kind(report.unexplained()).items():
        lines.append(paint("strong", kind) + f"  ({_cases(len(results))})")
        lines += [*_failures(results, paint, verbose), ""]
    return "\n".join([*lines, *_summary(report, paint)])


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def _by_kind(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Sort failures that no mistake explains by what came of them."""
    found: dict[str, list[Result]] = {}
    for result in results:
        outcome = result.outcome
        kind: str | None = {
            "timed out": "Too slow, or an endless loop",
            "crashed": "The process crashed",
            "exited": "The process was left",
            "law": result.verdict.why,
        }.get(outcome.kind)
        if kind is None and outcome.kind in {"raised", "refused"}:
            kind = f"Unknown mistake; it raises {outcome.note.partition(':')[0]}"
        if "raises" in result.case.expected:
            raised = outcome.kind == "raised"
            kind = "Refuses by another kind of error" if raised else "Takes what it should refuse"
        found.setdefault(kind or "Unknown mistake", []).append(result)
    return found


def _table(report: Report, paint: Painter) -> Iterator[str]:
    yield paint("faint", f"{'':<26}{'core':>9}{'robust':>9}{'not offered':>14}")
    for group, title in groups().items():
        counts = report.counts(group)
        if not counts:
            continue
        bad = counts["fail"] + counts["not run"] > 0
        offered = sum(counts.values()) > counts["not offered"]
        mark = paint("fail", "✗") if bad else paint("pass", "✓") if offered else " "
        cells = "".join(f"{_share(report.counts(group, level)):>9}" for level in ("core", "robust"))
        yield f"{mark} {title:<24}{cells}{counts['not offered'] or '–':>14}"


def _share(counts: Counter[str]) -> str:
    offered = sum(counts.values()) - counts["not offered"]
    return f"{counts['pass']}/{offered}" if offered else "–"


def _failures(results: Iterable[Result], paint: Painter, verbose: bool) -> Iterator[str]:
    """Show the smallest case in full, the others by name."""
    first, *others = results
    yield from _failure(first, paint)
    if verbose:
        for other in others:
            yield from _failure(other, paint)
    elif others:
        names = [r.case.name for r in others]
        more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
        yield paint.wrapped(f"also: {', '.join(names[:LISTED])}{more}", "  ")


def _failure(result: Result, paint: Painter) -> Iterator[str]:
    case, outcome = result.case, result.outcome
    yield f"  {paint('fail', '✗')} {case.name}  {paint('faint', f'({case.level}; {case.source})')}"
    yield paint.wrapped(case.asks, "    ")
    for name, spec in {**case.inputs, **case.options}.items():
        yield f"    {name:<9} {_spec(spec)}"
    want = case.expected_array()
    if want is not None and want.size <= SMALL:
        yield f"    {'expected':<9} {_numbers(want)}"
    if want is not None and outcome.array is not None and outcome.array.size <= SMALL:
        yield f"    {'got':<9} {_numbers(outcome.array)}"
    where = f" ({outcome.where})" if outcome.where else ""
    yield paint.wrapped(f"{result.verdict.why}{where}", "    ")


def _spec(spec: Any) -> str:
    if not is_array(spec):
        return str(spec)
    shape = "×".join(map(str, spec["shape"])) or "number"
    what = f"{shape} {spec['dtype']}"
    if "layout" in spec:
        what += f", {spec['layout']}"
    if "data" not in spec:
        return what
    if "fill" in spec:
        first = ", ".join(f"{x:g}" for x in spec["data"][:4])
        return f"{first}, … ({what})"
    numbers = np.array([float(x) for x in spec["data"]]).reshape(spec["shape"])
    return what if numbers.size > SMALL else f"{_numbers(numbers, spec['dtype'])} ({what})"


def _numbers(array: Any, dtype: str = "") -> str:
    numbers = array.astype(bool) if dtype == "bool" else array.astype(np.float64)
    formatter: Any = {"float_kind": lambda x: f"{x:.5g}", "bool": lambda x: "FT"[int(x)]}
    text = np.array2string(numbers, separator=", ", formatter=formatter, max_line_width=10_000)
    return "".join(line.strip() + " " * line.endswith(",") for line in text.splitlines())


def _summary(report: Report, paint: Painter) -> Iterator[str]:
    counts = report.counts()
    parts = [f"{counts[s]} {s}" for s in ("pass", "fail", "not run", "not offered") if counts[s]]
    kind = "pass" if report.ok else "fail"
    yield f"{paint(kind, ', '.join(parts))}  {paint('faint', f'({report.seconds:.1f} s)')}"
    core = report.counts(level="core")
    bad = core["fail"] + core["not run"]
    if core["pass"] and not bad and not report.ok:
        yield paint.wrapped(
            "All core cases that are offered pass: by the textbook this is right. What fails is "
            "where textbook solutions and libraries are known to break; --core leaves it out."
        )


def listing(cases: Iterable[Case], paint: Painter) -> str:
    """Return the cases by group, with what each asks."""
    lines = []
    titles, last = groups(), None
    for case in cases:
        if case.group != last:
            last = case.group
            lines += ["", paint("strong", f"{titles[last]} ({last})")]
        faint = paint("faint", f"[{case.level}; {case.source}]")
        lines.append(f"  {case.name:<28} {case.asks} {faint}")
    return "\n".join(lines[1:])
