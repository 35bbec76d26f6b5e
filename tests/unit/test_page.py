"""The page: complete, safe, within its limit, and true to the numbers."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from headwise import lens
from headwise.lens.page import SCRIPTS, STYLES, page_iframe, render_page
from headwise.lens.page.budget import DETAILS, LIMIT, fit_text, fit_texts, size
from headwise.lens.page.packing import pack, pack_whole
from headwise.lens.tokens import visible
from headwise.lens.views import Report
from tests.reports import blocks, long_report, random_report, sample_report

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u2028",
    '"',
    "&amp;",
    "\u202eabc",
    "\ud800",
    "x" * 10_000,
    "\x00",
    "",
]


class Elements(HTMLParser):
    """Collects a page's elements and the texts of its styles and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "h1": []}
        self._inside: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in {"script", "style", "h1"} & set(self._inside):
            self.texts[tag].append(data)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    loaded: dict[str, Any] = json.loads(match[1])
    return loaded


def whole(packed: dict[str, Any]) -> Any:
    """Unpack whole numbers, as the page's script does."""
    octets = np.frombuffer(zlib.decompress(base64.b64decode(packed["bytes"])), np.uint8)
    width = packed["bits"] // 8
    return np.ascontiguousarray(octets.reshape(width, -1).T).view(f"<u{width}").ravel()


def numbers(packed: dict[str, Any], *shape: int) -> Any:
    levels = whole(packed).reshape(len(packed["tops"]), -1) / (2.0 ** packed["bits"] - 1)
    return (levels**2 * np.array(packed["tops"])[:, None]).reshape(-1, *shape)


def tokens(text: dict[str, Any]) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text["tokens"])))


@pytest.fixture(scope="module")
def sample() -> Report:
    return sample_report()


@pytest.fixture(scope="module")
def page(sample: Report) -> str:
    return render_page(sample)


# ---- what a page holds --------------------------------------------------------------------------


def test_page_asks_for_nothing(page: str) -> None:
    assert not re.search(r"(https?:)?//[a-z]+\.", page.replace("http://www.w3.org/2000/svg", ""))
    for tag, attributes in Elements(page).tags:
        assert "src" not in attributes, tag
        assert attributes.get("href", "data:,") == "data:,"


def test_policy_allows_the_pages_own_style_and_script_and_nothing_else(page: str) -> None:
    found = Elements(page)
    policy = next(a["content"] for _, a in found.tags if "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for text in (found.texts["style"][0], found.texts["script"][-1]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_page_holds_the_numbers_and_the_exact_weights(page: str, sample: Report) -> None:
    data = data_of(page)
    measures = {m["name"]: m for m in data["measures"]}
    assert set(measures) == set(sample.numbers)
    np.testing.assert_allclose(
        measures["induction"]["values"], sample.numbers["induction"], rtol=1e-3
    )
    text, view = data["texts"][0], sample.texts[0].layers[18]
    assert (text["rows"], text["columns"], text["block"], text["bits"]) == (156, 156, [1, 1], 16)
    kept = numbers(text["layers"][6]["mean"], 156, 156)
    np.testing.assert_allclose(kept, view.block_mean, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(
        numbers(text["layers"][6]["received"], 156), view.received, rtol=1e-3, atol=1e-7
    )
    assert tokens(text) == sample.texts[0].tokens


def test_every_measure_is_explained(page: str) -> None:
    groups = [m["group"] for m in data_of(page)["measures"]]
    assert groups == sorted(groups, key=groups.index)
    for measure in data_of(page)["measures"]:
        assert all(measure[name] for name in ("formula", "meaning", "unit", "group"))


def test_page_begins_with_the_strongest_head_of_the_wanted_measure(sample: Report) -> None:
    assert data_of(render_page(sample))["start"] == {"measure": "induction", "row": 6, "head": 6}
    start = data_of(render_page(sample, measure="previous_token"))["start"]
    assert (start["row"], start["head"]) == (4, 0)
    with pytest.raises(ValueError, match=r"one of .*induction.*, got 'size'"):
        render_page(sample, measure="size")


def test_a_profile_makes_a_page() -> None:
    report = lens.profile(lens.load_sample()).report()
    assert report.title == "SmolLM2-135M-Instruct"
    text = data_of(render_page(report))["texts"][0]
    assert (text["block"], text["distances"][0]) == ([1, 1], [0, 0])
    assert not text["top_queries"]  # the map tells the largest weights


def test_heads_without_numbers_have_none() -> None:
    report = random_report(6)
    report = replace(report, numbers={"entropy": np.array([[np.nan, 2.0]])})
    measure = data_of(render_page(report))["measures"][0]
    assert (measure["values"], measure["top"]) == ([[None, 2.0]], 2.0)


@pytest.mark.parametrize("change", ["no texts", "no numbers", "no tokens", "other layers only"])
def test_pages_of_reports_that_lack_something(change: str) -> None:
    report = random_report(7, layers=2)
    text = report.texts[0]
    lacking = {
        "no texts": replace(report, texts=[]),
        "no numbers": replace(report, numbers={}),
        "no tokens": replace(report, texts=[replace(text, tokens=None)]),
        "other layers only": replace(report, texts=[replace(text, layers={1: text.layers[1]})]),
    }[change]
    data = data_of(render_page(lacking))
    assert data["num_heads"] == 2
    if change == "other layers only":
        assert [bool(layer) for layer in data["texts"][0]["layers"]] == [False, True]


# ---- texts of strangers -------------------------------------------------------------------------


def test_hostile_texts_stay_texts() -> None:
    evil = "</script>\u2028\"'\u202e<b>\ud800"
    report = random_report(len(HOSTILE), tokens=HOSTILE, name=evil)
    page = render_page(replace(report, title=evil, facts=[evil], notes=[evil]))
    page.encode()  # no half of a surrogate pair is left
    assert "\u202e" not in page
    found, data = Elements(page), data_of(page)
    plain = Elements(render_page(random_report(len(HOSTILE))))
    ours, theirs = ([tag for tag, _ in e.tags if tag != "li"] for e in (found, plain))
    assert ours == theirs
    assert tokens(data["texts"][0]) == [visible(token, 80) for token in HOSTILE]
    assert "".join(found.texts["h1"]).strip() == visible(evil)


def test_a_frame_holds_the_page_and_may_do_nothing_but_run_its_script() -> None:
    report = replace(random_report(5), title="\"><script>alert(1)</script>'")
    frame = page_iframe(report, height=400)
    [(tag, attributes)] = Elements(frame).tags
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == html.unescape(html.escape(render_page(report)))
    assert "height:400px" in str(attributes["style"])
    with pytest.raises(ValueError, match="at least 1"):
        page_iframe(report, height=0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", " the"),
        ("a\r\n\t", "a␍⏎⇥"),
        ("\x1b[0m", "␛[0m"),
        ("\u00a0\u3000", "‹00A0›‹3000›"),
        ("\ufeff\u2028", "‹FEFF›‹2028›"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\u200d", "‹200D›"),
        ("\ud83d", "‹D83D›"),
        ("日本", "日本"),
    ],
)
def test_what_shows_nothing_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


# ---- the limit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1_000, 32_768])
def test_300_heads_of_a_long_text_stay_below_the_limit(length: int) -> None:
    report = long_report(length)
    page = render_page(report)
    assert len(page.encode()) < LIMIT
    text = data_of(page)["texts"][0]
    assert text["rows"] >= 80
    assert len(tokens(text)) == length
    assert len(text["windows"]) > 20
    assert "pooled to cells of" in text["notes"][0]
    assert {"mean", "max", "received", "entropy", "offsets", "top_keys"} < set(text["layers"][0])


def test_listed_weights_are_those_of_their_queries() -> None:
    report = long_report(1_000, layers=30)
    text, view = data_of(render_page(report))["texts"][0], report.texts[0].layers[0]
    assert view.top_weights is not None
    assert view.top_keys is not None
    listed, count = text["top_queries"], text["top_keys"]
    queries = [(2 * r + 1) * 1_000 // (2 * listed) for r in range(listed)]
    layer = text["layers"][0]
    keys = whole(layer["top_keys"]).reshape(10, listed, count)
    np.testing.assert_array_equal(keys, view.top_keys[:, queries, :count])
    np.testing.assert_allclose(
        numbers(layer["top_weights"], listed, count),
        view.top_weights[:, queries, :count],
        rtol=1e-3,
        atol=1e-6,
    )


@pytest.mark.parametrize("room", [900_000, 250_000, 90_000, 60_000])
def test_with_less_room_a_text_is_told_in_less_detail(sample: Report, room: int) -> None:
    found = fit_text(sample.texts[0], sample.layers, room)
    assert found is not None
    assert size(found) < room
    assert found["notes"]
    weights = sample.texts[0].layers[0].block_mean
    kept = numbers(found["layers"][0]["mean"], found["rows"], found["columns"])
    expected = blocks(weights, tuple(found["block"]), np.mean)
    np.testing.assert_allclose(kept, expected, atol=0.01 * float(expected.max()))


def test_texts_that_do_not_fit_are_named() -> None:
    texts = [replace(random_report(60).texts[0], name=f"text {n}") for n in range(5)]
    kept, missing = fit_texts(texts, [0], 8_000)
    assert [text["name"] for text in kept] == [f"text {n}" for n in range(len(kept))]
    assert 0 < len(kept) < 5
    assert re.search(rf"left out, {5 - len(kept)}: “text {len(kept)}”", missing[0])
    assert sum(size(text) for text in kept) <= 8_000


def test_long_tokens_are_cut_before_maps_suffer() -> None:
    rng = np.random.default_rng(5)
    names = ["".join(map(chr, rng.integers(0x4E00, 0x9FFF, 500))) for _ in range(200)]
    found = fit_text(random_report(200, tokens=names).texts[0], [0], 120_000)
    assert found is not None
    assert max(map(len, tokens(found))) <= 24
    assert "Tokens longer than 24 characters are cut." in found["notes"]


def test_details_only_ever_get_less() -> None:
    for more, less in pairwise(DETAILS):
        for name in ("cells", "bits", "strip", "queries", "keys"):
            assert getattr(less, name) <= getattr(more, name)


@pytest.mark.parametrize(("bits", "error"), [(8, 0.003), (16, 2e-5)])
def test_packed_numbers_keep_their_digits(bits: int, error: float) -> None:
    array = np.random.default_rng(2).uniform(size=(3, 40)) ** 4 * [[1], [0.01], [0]]
    packed = pack(array, bits)
    kept = numbers(packed, 40)
    np.testing.assert_allclose(kept, array, atol=error, rtol=0)
    np.testing.assert_allclose(np.sqrt(kept[1]), np.sqrt(array[1]), atol=0.1 / (2**bits - 2))
    assert pack(np.array([[np.nan, -1.0, np.inf, 0.5]]), bits)["tops"] == [0.5]


@pytest.mark.parametrize("most", [200, 70_000])
def test_whole_numbers_are_packed_exactly(most: int) -> None:
    array = np.arange(0, most, 7)
    np.testing.assert_array_equal(whole(pack_whole(array)), array)


# ---- the sources --------------------------------------------------------------------------------


def test_scripts_are_small_and_build_no_markup() -> None:
    folder = resources.files("headwise.lens") / "templates"
    parts = [f"{name}.js" for name in SCRIPTS] + [f"{name}.css" for name in STYLES]
    assert {f.name for f in folder.iterdir()} == {*parts, "page.html.j2"}
    for name in parts:
        source = (folder / name).read_text(encoding="utf-8")
        assert len(source.splitlines()) <= 300
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|document\.write", source
        )
