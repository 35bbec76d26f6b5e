"""Make ``src/headwise/conformance/cases.json``: what ``headwise check`` asks.

Expected results come from the float64 oracle, `headwise.reference`, or stand here by hand. With
``-`` the file goes to the standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from suite import attention, heads, masks, options, positions
from suite.recipe import CASES

PATH = Path(__file__).resolve().parent.parent / "src" / "headwise" / "conformance" / "cases.json"
GROUPS = {
    "split": ("splitting heads", heads.write_split),
    "combine": ("combining heads", heads.write_combine),
    "per-head": ("attention in every head", heads.write_per_head),
    "attention": ("the attention itself", attention.write_attention),
    "mask": ("boolean masks", masks.write_masks),
    "bias": ("float masks and biases", masks.write_biases),
    "causal": ("causal", positions.write_causal),
    "grouped": ("grouped heads", options.write_grouped),
    "window": ("windows", positions.write_windows),
    "softcap": ("softcap", options.write_softcap),
    "sinks": ("sinks", options.write_sinks),
    "lengths": ("lengths", positions.write_lengths),
    "empty": ("empty inputs", options.write_empties),
    "half": ("16-bit floats", options.write_half),
}


def text() -> str:
    """Return the file: one line for each part of a case."""
    for _, write in GROUPS.values():
        write()
    titles = json.dumps({name: title for name, (title, _) in GROUPS.items()})
    cases = []
    for case in CASES:
        lines = (
            f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in case.items()
        )
        cases.append("{\n" + ",\n".join(lines) + "\n}")
    return f'{{\n"groups": {titles},\n"cases": [\n' + ",\n".join(cases) + "\n]\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["-"]:
        print(text(), end="")
    else:
        PATH.write_text(text(), encoding="utf-8")
