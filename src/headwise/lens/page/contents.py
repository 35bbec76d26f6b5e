"""What the page's script is given: plain lists, texts and packed arrays."""

from __future__ import annotations

from typing import Any

from headwise.lens.measures import MEASURES
from headwise.lens.page.budget import fit_texts, size
from headwise.lens.page.packing import short
from headwise.lens.ranking import ends, num_heads, ranked, telling
from headwise.lens.tokens import visible
from headwise.lens.views import Report

_UNITS = {"weight": "weight, 0 to 1", "share": "share, 0 to 1", "value": "in the values' units"}
_WORDS = 400  # characters of a note or a fact that are kept
_MOST = 40  # notes or facts that are kept
_FOR_NUMBERS = 0.4  # of the room


def contents(report: Report, measure: str | None, room: int) -> dict[str, Any]:
    """Return all that a page holds of a report, in at most ``room`` bytes."""
    measures, unmeasured = _measures(report, int(room * _FOR_NUMBERS))
    notes = clipped(report.notes)
    data: dict[str, Any] = {
        "title": visible(report.title, _WORDS),
        "layers": report.layers,
        "num_heads": num_heads(report),
        "heads": [report.number(head) for head in range(num_heads(report))],
        "measures": measures,
        "start": _start(report, measure, [m["name"] for m in measures]),
    }
    longest_notes = size(notes) + 1000
    texts, missing = fit_texts(report.texts, report.layers, room - size(data) - longest_notes)
    return data | {"texts": texts, "notes": [*notes, *unmeasured, *missing]}


def clipped(words: list[str]) -> list[str]:
    """Return notes or facts as a page shows them."""
    return [visible(text, _WORDS) for text in words[:_MOST]]


def _measures(report: Report, room: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the measures, those of a group side by side, and how many did not fit."""
    found: list[dict[str, Any]] = []
    groups = list(dict.fromkeys(MEASURES[name].group for name in report.numbers))
    names = sorted(report.numbers, key=lambda name: groups.index(MEASURES[name].group))
    for number, name in enumerate(names):
        measure = _measure(report, name)
        room -= size(measure)
        if room < 0:
            return found, [f"{len(names) - number} measures did not fit into this page."]
        found.append(measure)
    return found, []


def _measure(report: Report, name: str) -> dict[str, Any]:
    m, table = MEASURES[name], report.numbers[name]
    low, top = ends(name, table)
    return {
        "name": name,
        "group": m.group,
        "formula": m.formula,
        "meaning": m.meaning,
        "source": m.source,
        "unit": _UNITS.get(m.unit, m.unit),
        "kind": m.kind,
        "least": m.least,
        "low": short(low),
        "top": short(top),
        "values": [[short(float(x)) for x in row] for row in table],
    }


def _start(report: Report, measure: str | None, names: list[str]) -> dict[str, Any]:
    """Return what is shown first: a measure, and the head that has most of it."""
    if measure is None:
        shown = {name: report.numbers[name] for name in names}
        measure = telling(shown) if shown else None
    elif measure not in names:
        raise ValueError(f"measure must be one of {', '.join(names)}, got {measure!r}")
    best = ranked(report.numbers[measure], 1) if measure else []
    row, head = best[0][:2] if best else (0, 0)
    return {"measure": measure, "row": row, "head": head}
