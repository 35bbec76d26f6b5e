"""A file imports only from its own floor or lower ones, and other libraries only where it may."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headwise"

FLOORS = {
    "_binding": 1, "_arrays": 1, "_errors": 1, "_html": 1, "_numbers": 1, "_threads": 1,
    "_threadpoolctl": 1,
    "_dense": 2, "_mask_kinds": 2, "masks": 2, "biases": 2, "_shapes": 2, "_lowering": 2,
    "_positions": 2, "_cutting": 2, "_prepare": 2, "_rectangles": 2, "attention": 2,
    "statistics": 2, "_second_pass": 2, "_copies": 2, "_distances": 2, "_value_lengths": 2,
    "_collecting": 2, "_deriving": 2, "observers": 2, "observation": 2, "_seen": 2, "reference": 2,
    "merging": 2, "cache": 2,
    "heads": 3, "layer": 3, "rotary": 3,
    "adapters": 4, "conformance": 4,
    "lens": 5,
    "cli": 6, "cli_check": 6, "cli_compare": 6, "cli_files": 6, "cli_look": 6,
    "__init__": 6,
}  # fmt: skip
START = {"numpy"}  # what `import headwise` may load beside the standard library
OPTIONAL = {
    "lens/page/__init__.py": {"jinja2", "markupsafe"},
    "lens/terminal.py": {"rich"},
    "adapters/_transformers_attention.py": {"torch"},
    "adapters/_transformers_masks.py": {"torch", "transformers"},
    "adapters/_transformers_readers.py": {"torch", "transformers"},
    "adapters/_transformers_refusals.py": {"torch"},
    "adapters/_transformers_tensors.py": {"torch"},
}  # what may be imported at the top of these files, which are themselves imported when used


def floor_of(path: Path) -> int:
    return FLOORS[path.relative_to(PACKAGE).parts[0].removesuffix(".py")]


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path, *, top_only: bool) -> set[str]:
    """Return the modules that a file imports, dotted, type-checking blocks left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(name: str) -> str:
    """Return the first part of a module's name below headwise: its place among the floors."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "__init__"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_come_from_lower_floors(path: Path) -> None:
    own = floor_of(path)
    for name in imports(path, top_only=False):
        if name.split(".")[0] != "headwise" or within(name) == "__init__":
            continue
        assert FLOORS[within(name)] <= own, f"{path.name} (floor {own}) imports {name}"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_numpy_is_imported_at_the_top(path: Path) -> None:
    import sys

    allowed = START | OPTIONAL.get(str(path.relative_to(PACKAGE)), set())
    others = {name.split(".")[0] for name in imports(path, top_only=True)}
    assert others - set(sys.stdlib_module_names) - {"headwise"} <= allowed


def test_every_file_has_a_floor() -> None:
    places = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in sources()}
    assert places == set(FLOORS)


CPP = sorted((ROOT / "cpp").glob("*.[ch]pp"))
FORBIDDEN = {
    "Python": r"#include <Python\.h>|nanobind",
    "threads": r"#include <(thread|mutex|atomic|condition_variable|future)>",
    "allocation": r"\bnew\b|\bmalloc\b|std::vector|#include <(vector|memory)>",
    "exceptions": r"\bthrow\b|\btry\b|\bcatch\b",
}  # fmt: skip


@pytest.mark.parametrize("what", FORBIDDEN)
def test_kernels_are_on_the_lowest_floor(what: str) -> None:
    """No Python, no threads, no allocation and no exceptions in cpp/, comments left out."""
    for path in CPP:
        code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        assert not re.search(FORBIDDEN[what], code), f"{path.name} has {what}"


def test_kernels_include_only_one_another() -> None:
    for path in CPP:
        for name in re.findall(r'#include "(.+)"', path.read_text(encoding="utf-8")):
            assert (ROOT / "cpp" / name).exists(), f"{path.name} includes {name}"
