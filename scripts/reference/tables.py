"""The tables of ``docs/statistics.md``, made from headwise's own.

What the code has no place for stands here: who described a statistic, and by what it is divided.
"""

from __future__ import annotations

from headwise.lens.measures import MEASURES, Measure
from headwise.statistics import SECOND_PASS, STATISTICS, SecondPass, Statistic
from reference import sample

OPTIONS = {
    "window_received": "w=32",
    "value_weighted": "projection=None",
    "offset_mass": 'bins="all"',
    "normalized_offset_mass": 'bins="all"',
    "pair_count": 'bins="all"',
    "block_map": "rows=128, columns=128",
    "top_keys": "k=4",
}
SOURCES = {
    "max_score": "Kimi Team 2025 (QK-clip)",
    "entropy": "Clark et al. 2019",
    "max_weight": "Voita et al. 2019",
    "argmax": "Voita et al. 2019",
    "distance": "Vig and Belinkov 2019",
    "previous_weight": "Olsson et al. 2022",
    "first_weight": "Xiao et al. 2023 (StreamingLLM)",
    "sink_weight": "Agarwal et al. 2025 (gpt-oss)",
    "output_norm": "Kobayashi et al. 2020",
    "received": "Zhang et al. 2023 (H2O)",
    "normalized_received": "Gu et al. 2024",
    "window_received": "Li et al. 2024 (SnapKV)",
    "value_weighted": "Kobayashi et al. 2020",
    "stripe": "Olsson et al. 2022",
}
NORMALISED = {
    "head_products": "`head_similarity`",
    "head_similarity": "yes",
    "block_map": "the mean is",
    "viewer_count": "a count",
    "pair_count": "a count",
    "visible_count": "a count",
    "visible_distance": "a count",
}


def row_statistics() -> list[str]:
    """Return the table of row statistics."""
    rows = ["| name | what it is | unit | normalised | source |", "| --- | --- | --- | --- | --- |"]
    return rows + [_row(statistic) for statistic in STATISTICS.values()]


def _row(s: Statistic) -> str:
    name = f"`{s.name}`" + ("†" if s.positional else "")
    return _cells(
        name, _what(s), s.unit, _normalised(s.name, set(STATISTICS)), SOURCES.get(s.name, "–")
    )


def second_pass() -> list[str]:
    """Return the table of the statistics of the second pass."""
    head = "| name, options | what it is | unit | shape | normalised | source |"
    return [head, "| --- | --- | --- | --- | --- | --- |", *map(_second, SECOND_PASS.values())]


def _second(s: SecondPass) -> str:
    options = OPTIONS.get(s.name, "")
    if [part.split("=")[0] for part in options.split(", ") if part] != list(s.options):
        raise ValueError(f"{s.name} has the options {list(s.options)}, not {options!r}")
    name = f"`{s.name}({options})`" if options else f"`{s.name}`"
    normalised = _normalised(s.name, set(SECOND_PASS))
    name += "†" if s.positional else ""
    return _cells(name, _what(s), s.unit, f"`{s.shape}`", normalised, SOURCES.get(s.name, "–"))


def measures(group: str) -> list[str]:
    """Return the table of the measures of a group, with the sample's strongest head of each."""
    head = "| name | what it is | unit | kind of head | source | most in the sample |"
    chosen = [measure for measure in MEASURES.values() if measure.group == group]
    return [head, "| --- | --- | --- | --- | --- | --- |", *map(_measure, chosen)]


def groups() -> list[str]:
    """Return the names of the groups of measures."""
    return list(dict.fromkeys(measure.group for measure in MEASURES.values()))


def _measure(m: Measure) -> str:
    kind = f"{m.kind}, from {m.least}" if m.kind else "–"
    most = "–"
    if m.name in sample.atlas().numbers:
        name, number = sample.atlas().strongest(m.name, 1)[0]
        most = f"{name}: {number:.2f}"
    return _cells(f"`{m.name}`", _what(m), m.unit, kind, m.source or "–", most)


def dataset() -> list[str]:
    """Return the table of what an atlas's Dataset holds beside the measures."""
    rows = ["| name | what it is | dimensions |", "| --- | --- | --- |"]
    for name, variable in sample.atlas().dataset.data_vars.items():
        if name not in MEASURES:
            words = variable.attrs.get("long_name") or variable.attrs["rule"]
            dimensions = ", ".join(str(d) for d in variable.dims)
            rows.append(_cells(f"`{name}`", words, f"`{dimensions}`"))
    return rows


def _what(s: Statistic | SecondPass | Measure) -> str:
    return f"{s.meaning}:<br>`{s.formula}`"


def _normalised(name: str, names: set[str]) -> str:
    if f"normalized_{name}" in names:
        return f"`normalized_{name}`"
    return "yes" if name.startswith("normalized_") else NORMALISED.get(name, "–")


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def blocks() -> dict[str, list[str]]:
    """Return every block of the page, by name."""
    found = {"row statistics": row_statistics(), "second pass": second_pass(), "dataset": dataset()}
    return found | {f"measures: {group}": measures(group) for group in groups()}
