"""What notebooks show of results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import headwise
from headwise import lens


def test_notebooks_show_pages_and_tables() -> None:
    sample = lens.profile(lens.load_sample())
    page = sample._repr_html_()
    assert page is not None
    assert page.startswith("<iframe")
    parts = {layer: dict(part) for layer, part in sample.parts.items()}
    hostile = replace(sample, model="<script>", parts=parts)
    assert "<script>" not in lens.compare(sample, hostile)._repr_html_()
    x = np.zeros((1, 2, 4, 8))
    table = headwise.observe(x, x, x, statistics="all")._repr_html_()
    assert "normalized_received" in table
    assert "(1, 2, 4)" in table
