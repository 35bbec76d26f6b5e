"""How errors are worded: what was expected, what came, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


def shape_text(shape: Iterable[int]) -> str:
    """Write a shape as NumPy does: ``(2, 8, 512, 64)``."""
    return str(tuple(int(n) for n in shape))


def listing(names: Iterable[str]) -> str:
    """Write names as a sentence does: ``a, b or c``."""
    *rest, last = names
    return f"{', '.join(rest)} or {last}" if rest else last
