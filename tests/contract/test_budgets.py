"""Functions and files stay small, and no call grows more than eight options."""

from __future__ import annotations

import ast
import inspect
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwise
from headwise._prepare import Options

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "cpp", "tests", "benchmarks", "scripts")
OPERANDS = {"self", "query", "key", "value"}
PUBLIC_CALLS: list[Callable[..., Any]] = [
    headwise.scaled_dot_product_attention,
    headwise.observe,
    headwise.multi_head_attention,
    headwise.multi_head_attention_per_head,
    headwise.MultiHeadAttention.__call__,
    headwise.MultiHeadAttention.observe,
]


def files(*endings: str) -> list[Path]:
    return [p for f in FOLDERS for e in endings for p in (ROOT / f).rglob(f"*{e}")]


def python_functions() -> list[tuple[str, int]]:
    """Return (where, lines) of every function; a docstring is documentation and does not count."""
    found = []
    for path in files(".py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                body = (
                    node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                )
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1
                found.append((f"{path.name}:{node.name}", lines + 1))
    return found


def cpp_functions() -> list[tuple[str, int]]:
    """Return (where, lines) of every C++ function: from its opening brace to the closing one."""
    opening = re.compile(
        r"^(?!namespace|struct|class|enum|extern|static const|const)\s*\S.*\)[^;]*\{$"
    )
    found = []
    for path in files(".cpp", ".hpp"):
        lines = path.read_text(encoding="utf-8").splitlines()
        for start, line in enumerate(lines):
            indent = len(line) - len(line.lstrip())
            if (
                indent > 2
                or not opening.match(line)
                or re.match(r"\s*(if|for|while|switch|else)\b", line)
            ):
                continue
            end = next(
                k for k in range(start, len(lines)) if lines[k].startswith(" " * indent + "}")
            )
            found.append((f"{path.name}:{start + 1}", end - start + 1))
    return found


@pytest.mark.parametrize("functions", [python_functions(), cpp_functions()], ids=["python", "cpp"])
def test_functions_are_small(functions: list[tuple[str, int]]) -> None:
    sizes = [lines for _, lines in functions]
    assert len(sizes) > 50
    assert statistics.median(sizes) <= 12
    assert sorted(sizes)[int(0.9 * len(sizes))] <= 40
    assert not [where for where, lines in functions if lines > 60]


def test_files_are_small() -> None:
    sizes = {
        p.name: len(p.read_text(encoding="utf-8").splitlines())
        for p in files(".py", ".cpp", ".hpp")
    }
    assert not {name: lines for name, lines in sizes.items() if lines > 500}
    assert sorted(sizes.values())[int(0.95 * len(sizes))] <= 300


@pytest.mark.parametrize("call", PUBLIC_CALLS, ids=lambda call: call.__qualname__)
def test_calls_have_at_most_eight_options(call: Callable[..., Any]) -> None:
    parameters = [p for p in inspect.signature(call).parameters.values() if p.name not in OPERANDS]
    optional = [p for p in parameters if p.default is not p.empty]
    shared = [p for p in parameters if p.kind is p.VAR_KEYWORD]
    assert len(optional) + len(shared) * len(Options.__annotations__) <= 8
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert set(positional) <= {"mask", "num_heads"}


@pytest.mark.parametrize("call", PUBLIC_CALLS[:2], ids=lambda call: call.__qualname__)
def test_the_shared_options_are_those_of_the_calls_themselves(call: Callable[..., Any]) -> None:
    own = {"out", "mask", "statistics"} | OPERANDS
    assert set(inspect.signature(call).parameters) - own == set(Options.__annotations__)


def test_one_copy_of_each_kernel() -> None:
    """Every instruction set compiles the same source; a vector file holds vectors and no kernel."""
    for path in (ROOT / "cpp").glob("simd_*.hpp"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 150, f"{path.name} holds more than a vector type"
        assert "Arguments" not in text
    assert not re.search(r"#if.*(AVX|SSE|NEON)", "".join(p.read_text() for p in files(".hpp")))
