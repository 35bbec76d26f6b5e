"""Every example runs: docstrings, README and docs. And no text says what it must not."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwise

ROOT = Path(__file__).resolve().parents[2]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PAGES = [ROOT / name for name in ("README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


def modules() -> Iterator[str]:
    yield "headwise"
    for module in pkgutil.walk_packages(headwise.__path__, "headwise."):
        yield module.name


@pytest.mark.parametrize("name", list(modules()))
def test_docstring_examples_run(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert results.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    source = "\n".join(block for block in blocks if ">>>" in block)
    example = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(example).failed == 0


def test_every_public_name_has_an_example_or_is_a_module() -> None:
    for name in headwise.__all__:
        thing = getattr(headwise, name)
        text = thing.__doc__ or ""
        assert ">>>" in text or not callable(thing) or name in {"Observation", "get_num_threads"}, (
            name
        )


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_text_holds_a_path_of_some_machine() -> None:
    suffixes = {".py", ".md", ".cpp", ".hpp", ".toml", ".txt", ".js", ".css", ".j2", ".pyi"}
    for path in ROOT.rglob("*"):
        parts = set(path.relative_to(ROOT).parts)
        if path.suffix not in suffixes or parts & {".venv", "build", ".git"}:
            continue
        assert not re.search(r"/(home|root|work)/\w+", path.read_text(encoding="utf-8")), path
