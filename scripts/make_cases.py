"""Make ``src/headwise/conformance/cases.json``: what ``headwise check`` asks.

Expected results come from the float64 oracle, `headwise.reference`, or stand here by hand. With
``-`` the file goes to the standard output.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from suite.recipe import CASES

PATH = Path(__file__).resolve().parent.parent / "src" / "headwise" / "conformance" / "cases.json"
GROUPS = {
    "split": "splitting heads",
    "combine": "combining heads",
    "per-head": "attention in every head",
    "attention": "the attention itself",
    "mask": "boolean masks",
    "bias": "float masks and biases",
    "causal": "causal",
    "grouped": "grouped heads",
    "window": "windows",
    "softcap": "softcap",
    "sinks": "sinks",
    "lengths": "lengths",
    "empty": "empty inputs",
    "half": "16-bit floats",
}
MODULES = ("heads", "attention", "masks", "positions", "options")  # they write the cases down


def text() -> str:
    """Return the file: one line for each part of a case."""
    for name in MODULES:
        importlib.import_module(f"suite.{name}")
    order = list(GROUPS)
    cases = []
    for case in sorted(CASES, key=lambda case: order.index(case["name"].split("/")[0])):
        lines = (
            f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in case.items()
        )
        cases.append("{\n" + ",\n".join(lines) + "\n}")
    return f'{{\n"groups": {json.dumps(GROUPS)},\n"cases": [\n' + ",\n".join(cases) + "\n]\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        print(text(), end="")
    else:
        PATH.write_text(text(), encoding="utf-8")
