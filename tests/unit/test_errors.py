from __future__ import annotations

import numpy as np
import pytest

from headwise._errors import listing, shape_text


@pytest.mark.parametrize(
    ("names", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (("a", "b", "c"), "a, b or c")]
)
def test_listing(names: list[str], text: str) -> None:
    assert listing(names) == text


@pytest.mark.parametrize(
    ("shape", "text"), [((), "()"), ((3,), "(3,)"), ([np.int64(2), np.int32(8)], "(2, 8)")]
)
def test_shape_text(shape: tuple[int, ...], text: str) -> None:
    assert shape_text(shape) == text
