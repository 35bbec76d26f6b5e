"""The page and the pictures: complete, safe, and true to the numbers."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import lens
from headwise.lens.page import render_page

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u2028",
    '"',
    "&amp;",
]


def recording(tokens: list[str] | None, length: int, model: str = "m") -> lens.Recording:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(2, length, 8)).astype(np.float32) for _ in range(3)]
    ids = None if tokens is None else np.arange(length)
    return lens.Recording({0: lens.Layer(*arrays)}, tokens, ids, causal=True, model=model)


class Elements(HTMLParser):
    """Collects the page's elements and the text of its data element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    loaded: dict[str, Any] = json.loads(match[1])
    return loaded


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(lens.profile(lens.load_sample()))


def test_page_asks_for_nothing(page: str) -> None:
    assert not re.search(r"(https?:)?//[a-z]+\.", page)
    policy = next(a["content"] for t, a in Elements(page).tags if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    for tag, attributes in Elements(page).tags:
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:,") == "data:,"


def test_page_holds_the_numbers_and_the_weights(page: str) -> None:
    data, found = data_of(page), lens.profile(lens.load_sample())
    assert (data["rows"], data["columns"], data["block"]) == (156, 156, 1)
    measures = {m["name"]: m for m in data["measures"]}
    np.testing.assert_allclose(
        measures["induction"]["values"], found.numbers["induction"], atol=1e-5
    )
    raw = zlib.decompress(base64.b64decode(data["maps"][6]["weights"]))
    weights = (np.frombuffer(raw, np.uint8).reshape(9, 156, 156) / 255.0) ** 2
    np.testing.assert_allclose(weights, found.maps[18].weights, atol=0.004)
    assert data["tokens"] == found.recording.tokens


def test_hostile_tokens_stay_texts() -> None:
    page = render_page(lens.profile(recording(HOSTILE, 5, model="<script>alert(2)</script>")))
    scripts = [attributes for tag, attributes in Elements(page).tags if tag == "script"]
    assert len(scripts) == 2
    assert not [tag for tag, _ in Elements(page).tags if tag == "img"]
    assert data_of(page)["tokens"] == HOSTILE
    assert "<title>&lt;script&gt;" in page


def test_page_without_tokens_and_of_a_long_text() -> None:
    data = data_of(render_page(lens.profile(recording(None, 500))))
    assert (data["tokens"], data["block"], data["rows"]) == (None, 3, 167)
    assert len(data["maps"][0]["received"][0]) == 167


def test_every_measure_is_explained(page: str) -> None:
    for measure in data_of(page)["measures"]:
        assert measure["formula"]
        assert measure["meaning"]
        assert measure["unit_text"]


def test_pictures(tmp_path: Path) -> None:
    found = lens.profile(lens.load_sample())
    for name in ("a.png", "a.svg", "b.svg"):
        lens.write_picture(found, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    texts = "".join(ET.parse(tmp_path / "a.svg").getroot().itertext())
    for words in ("SmolLM2-135M-Instruct, 156 tokens, causal", "head 18.6: induction 0.58"):
        assert words in texts
    with pytest.raises(ValueError, match="xyz"):
        lens.write_picture(found, tmp_path / "a.xyz")


def test_picture_of_one_layer_without_tokens(tmp_path: Path) -> None:
    lens.write_picture(lens.profile(recording(None, 300)), tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000
