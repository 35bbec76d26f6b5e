"""Run ``docs/tutorial.ipynb`` from its first cell to its last, and keep small outputs in it.

The notebook checks itself: a cell that fails stops the run. Needs ``pip install --group test`` and
the two packages that its first cell names.
"""

from __future__ import annotations

import base64
import io
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs" / "tutorial.ipynb"
LARGEST = 120_000  # characters of one output; pages have megabytes
SECONDS = 120  # for one cell


def executed(folder: str | Path) -> Any:
    """Return the notebook as it is after a run in a folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        kernel_name="python3",
        resources=resources,
        extra_arguments=["--log-level=ERROR"],  # it warns of its own port
    )
    return client.execute()


def shortened(notebook: Any) -> Any:
    """Return the notebook without what differs from run to run, and without large outputs."""
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
            for output in cell.outputs:
                _shorten(output.get("data", {}))
    return notebook


def _shorten(data: dict[str, str]) -> None:
    if "image/png" in data:
        data["image/png"] = _smaller(data["image/png"])
    for kind in [kind for kind, text in data.items() if len(text) > LARGEST]:
        del data[kind]


def _smaller(png: str) -> str:
    """Return a picture at most 1,000 pixels wide, in 128 colours."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    picture.thumbnail((1000, 1000))
    file = io.BytesIO()
    picture.quantize(128).save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def main() -> None:
    """Run the notebook and write it back."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = shortened(executed(folder))
    nbformat.write(notebook, NOTEBOOK)  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
