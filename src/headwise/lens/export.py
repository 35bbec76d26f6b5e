"""The numbers of a profile as CSV and JSON."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import headwise
from headwise.lens.measures import MEASURES
from headwise.lens.profile import Profile


def write_csv(profile: Profile, path: str | Path) -> None:
    """Write one line for each head: ``layer``, ``head`` and every measure."""
    names = list(profile.numbers)
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["layer", "head", *names])
        for row, layer in enumerate(profile.layers):
            for head in range(profile.recording.num_heads):
                numbers = (f"{profile.numbers[name][row, head]:.8g}" for name in names)
                writer.writerow([layer, head, *numbers])


def write_json(profile: Profile, path: str | Path) -> None:
    """Write the numbers with their formulas, and what was looked at."""
    Path(path).write_text(json.dumps(as_dict(profile), indent=1, allow_nan=False), encoding="utf-8")


def as_dict(profile: Profile) -> dict[str, Any]:
    """Return the profile as plain lists and numbers."""
    recording = profile.recording
    return {
        "headwise": headwise.__version__,
        "source": recording.source,
        "model": recording.model,
        "query_len": recording.query_len,
        "kv_len": recording.kv_len,
        "num_heads": recording.num_heads,
        "num_kv_heads": recording.num_kv_heads,
        "causal": recording.causal,
        "layers": profile.layers,
        "empty_rows": profile.empty_rows,
        "measures": {
            name: {
                "formula": MEASURES[name].formula,
                "unit": MEASURES[name].unit,
                "values": numbers.astype(float).round(8).tolist(),
            }
            for name, numbers in profile.numbers.items()
        },
    }
