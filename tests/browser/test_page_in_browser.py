"""The page as a reader meets it: painted, clicked, typed at, printed, narrow, and in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise.lens.page import page_iframe, render_page
from headwise.lens.tokens import visible
from headwise.lens.views import Report
from tests.reports import long_report, random_report, sample_report

Open = Callable[..., Any]
INDUCTION = (6, 6)  # row and head of 18.6, where the sample's page begins


@pytest.fixture(scope="module")
def sample() -> Report:
    return sample_report()


@pytest.fixture(scope="module")
def sample_page(sample: Report) -> str:
    return render_page(sample)


@pytest.fixture(scope="module")
def pooled() -> Report:
    return sample_report(block=4)


def settle(page: Any) -> None:
    """Wait until what was asked for is painted."""
    page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 60))")


def text_of(page: Any, selector: str) -> str:
    return str(page.inner_text(selector))


def click_head(page: Any, row: int, head: int) -> None:
    page.click(f"#grid button[data-row='{row}'][data-head='{head}']")
    settle(page)


def colour_of(page: Any, row: int, head: int) -> str:
    button = f"#grid button[data-row='{row}'][data-head='{head}']"
    return str(page.eval_on_selector(button, "(e) => getComputedStyle(e).backgroundColor"))


def picture_of(page: Any, n: int = 0) -> str:
    return str(page.eval_on_selector_all("#maps canvas", f"(all) => all[{n}].toDataURL()"))


def point_at(page: Any, query: float, key: float, n: int = 0) -> tuple[float, float]:
    """Return where the middle of a pair of query and key is painted."""
    canvas = page.locator("#maps canvas").nth(n)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = canvas.evaluate(f"(c) => [c.frame.x({key} + 0.5), c.frame.y({query} + 0.5)]")
    return box["x"] + x, box["y"] + y


def no_sideways_scroll(page: Any) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


# ---- the grid -----------------------------------------------------------------------------------


def test_first_view(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page)
    assert page.title() == "SmolLM2-135M-Instruct · headwise"
    assert text_of(page, "#one-title") == "Head 18.6"
    assert "induction 0.58" in text_of(page, "#badges")
    assert colour_of(page, *INDUCTION) != colour_of(page, 0, 0)
    assert page.locator("#grid [aria-selected=true] button").get_attribute("data-row") == "6"
    for part in ("Head 18.6, 156 queries down", "Each cell is one weight", "entropy"):
        assert part in text_of(page, "#map-caption")


def test_the_first_view_of_a_long_text_comes_soon(open_report: Open) -> None:
    page = open_report(long_report(32_768, layers=8))
    assert float(page.get_attribute("html", "data-ready")) < 5_000  # 0.5 s on an idle machine
    assert "mean weight of 171 × 171 pairs" in text_of(page, "#map-caption")
    assert page.locator("#grid button.none").count() == 3
    assert "3 heads of 80 have no number" in text_of(page, "#grid-caption")
    assert "listed for" in text_of(page, "#notes")


def test_another_measure_explains_itself(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page)
    before = colour_of(page, 4, 0)
    page.select_option("#measure", "previous_token")
    settle(page)
    assert colour_of(page, 4, 0) != before
    assert "Weight on the token just before" in text_of(page, "#meaning")
    assert "Olsson" in text_of(page, "#source")
    assert text_of(page, "#list li:first-child").split()[0] == "16.0"


def test_the_list_is_sorted_and_filtered(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page)
    assert text_of(page, "#list-count") == "7 of 81 heads"
    page.fill("#list-only", "17")
    settle(page)
    assert text_of(page, "#list-count") == "3 of 81 heads"
    page.fill("#list-least", "0")
    page.click("#list-order")
    settle(page)
    assert text_of(page, "#list li:first-child").startswith("17.8")
    page.fill("#list-only", "99")
    settle(page)
    assert text_of(page, "#list-count") == "No head is like this."


# ---- one head -----------------------------------------------------------------------------------


def test_weights_are_read_from_the_map(open_report: Open, sample: Report, sample_page: str) -> None:
    page = open_report(sample_page)
    page.mouse.move(*point_at(page, 66, 33))
    settle(page)
    weight = sample.texts[0].layers[18].block_mean[6, 66, 33]
    assert text_of(page, "#readout") == f"query 66 “·V” → key 33 “ane”: {weight:.3g}"


def test_a_chosen_query_lists_its_largest_weights(
    open_report: Open, sample: Report, sample_page: str
) -> None:
    page, view = open_report(sample_page), sample.texts[0].layers[18]
    assert text_of(page, "#keys-title") == "Keys that receive most"
    page.mouse.click(*point_at(page, 66, 100))
    settle(page)
    assert text_of(page, "#keys-title") == "Largest weights of query 66 “·V”"
    first = text_of(page, "#keys").split()
    assert view.top_keys is not None
    assert first[:3] == [str(view.top_keys[6, 66, 0]), "ane", f"{view.block_mean[6, 66, 33]:.3g}"]
    page.keyboard.press("Escape")
    settle(page)
    assert text_of(page, "#keys-title") == "Keys that receive most"
    page.click("#text [data-key='66']")
    settle(page)
    assert text_of(page, "#keys-title") == "Largest weights of query 66 “·V”"
    assert page.locator("#text .query").inner_text().strip() == "V"


def test_listed_weights_of_a_long_text(open_report: Open) -> None:
    report = long_report(2_000, layers=6)
    page, view = open_report(report), report.texts[0].layers[0]
    click_head(page, 0, 5)
    page.mouse.click(*point_at(page, 1_000, 20))
    settle(page)
    query = int(text_of(page, "#keys-title").split()[4].replace(",", ""))
    assert abs(query - 1_000) < 25
    assert view.top_keys is not None
    assert view.top_weights is not None
    key, _, weight = text_of(page, "#keys").split("\n")[:3]
    assert int(key.replace(",", "")) == view.top_keys[5, query, 0]
    assert float(weight) == pytest.approx(view.top_weights[5, query, 0], rel=0.005)


def test_zoom_by_dragging_and_by_keys(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page)
    whole = picture_of(page)
    x, y = point_at(page, 49.5, 19.5)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(*point_at(page, 99.5, 59.5), steps=4)
    page.mouse.up()
    settle(page)
    assert "Shown: queries 50–99, keys 20–59" in text_of(page, "#map-caption")
    zoomed = picture_of(page)
    assert zoomed != whole
    page.focus("#maps canvas")
    page.keyboard.press("Shift+ArrowDown")
    settle(page)
    assert "queries 63–112" in text_of(page, "#map-caption")
    page.keyboard.press("0")
    settle(page)
    assert "Shown" not in text_of(page, "#map-caption")
    page.keyboard.press("+")
    settle(page)
    assert "queries 39–116, keys 39–116" in text_of(page, "#map-caption")


def test_inside_a_window_weights_are_exact(open_report: Open, pooled: Report) -> None:
    page, window = open_report(pooled), pooled.texts[0].windows
    mine = next(w for w in window if (w.layer, w.head) == (18, 6) and w.first_query == 100)
    page.mouse.move(*point_at(page, 121, 81))
    settle(page)
    assert "mean" in text_of(page, "#readout")
    page.click("#windows button >> text=100–139 × 40–79")
    settle(page)
    page.mouse.move(*point_at(page, 116, 46))
    settle(page)
    said = text_of(page, "#readout")
    assert said.startswith("query 116 ")
    assert said.endswith(f": {mine.weights[16, 6]:.3g}")
    assert "exact weight" in text_of(page, "#map-legend")


def test_pooling_scale_and_first_key_change_the_map(open_report: Open, pooled: Report) -> None:
    page = open_report(pooled)
    seen = [picture_of(page)]
    for key, said in (("c", "largest weight"), ("s", "logarithmic"), ("h", "keys 0–3, is hidden")):
        page.keyboard.press(key)
        settle(page)
        seen.append(picture_of(page))
        assert said in text_of(page, "#map-caption")
    assert len(set(seen)) == 4
    assert page.is_checked("#hide")


def test_two_heads_side_by_side(open_report: Open, sample: Report, sample_page: str) -> None:
    page = open_report(sample_page)
    page.click("#pin")
    settle(page)
    assert "now choose another" in text_of(page, "#badges")
    click_head(page, 4, 0)
    assert page.locator("#maps canvas:visible").count() == 2
    assert text_of(page, "#maps figure:first-child figcaption") == "Head 18.6, pinned"
    assert picture_of(page, 0) != picture_of(page, 1)
    assert page.locator("#curve path").count() == 2
    table = sample.numbers["induction"]
    line = page.locator("#numbers tr", has_text="induction").inner_text().split()
    difference = table[4, 0] - table[INDUCTION]
    assert line[1:4] == ["0.58", "0.001", f"{difference:.2f}".replace("-", "−")]
    page.click("#swap")
    settle(page)
    assert text_of(page, "#one-title") == "Head 18.6"
    page.keyboard.press("p")
    settle(page)
    assert page.locator("#maps canvas:visible").count() == 1


# ---- keyboard, theme, paper ---------------------------------------------------------------------


def test_everything_can_be_reached_by_keys(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page)
    page.keyboard.press("g")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    settle(page)
    assert text_of(page, "#one-title") == "Head 17.5"
    assert page.evaluate("document.activeElement.dataset.head") == "5"
    page.keyboard.press("]")
    settle(page)
    assert text_of(page, "#one-title") == "Head 23.2"
    page.keyboard.press("m")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    settle(page)
    assert text_of(page, "#announce").startswith("query 1 “·last” → key 1 “·last”")
    page.keyboard.press("Enter")
    settle(page)
    assert text_of(page, "#keys-title") == "Largest weights of query 1 “·last”"
    page.keyboard.press("?")
    assert page.locator("#help").get_attribute("open") is not None
    page.keyboard.press("Escape")
    assert page.locator("#help").get_attribute("open") is None


def test_tab_order_and_names(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page)
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.closest('[id]')?.id"))
    assert reached.index("measure") < reached.index("grid") < reached.index("pin")
    assert reached.count("grid") == 1
    nameless = page.evaluate(
        "() => [...document.querySelectorAll('button, select, input, canvas')].filter((e) =>"
        " e.offsetParent && !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length"
    )
    assert nameless == 0


def test_light_and_dark(open_report: Open, sample_page: str) -> None:
    page = open_report(sample_page, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark, picture = page.evaluate(ground), picture_of(page)
    page.emulate_media(media="print")
    settle(page)
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    assert not page.is_visible(".toolbar")
    page.emulate_media(media="screen")
    settle(page)
    assert page.evaluate(ground) == dark
    page.click("#theme")
    settle(page)
    assert page.evaluate(ground) != dark
    assert picture_of(page) != picture


# ---- widths, frames, odd reports ----------------------------------------------------------------


@pytest.mark.parametrize(("width", "length"), [(400, 10), (400, 90), (900, 90), (1440, 10)])
def test_pages_fit_the_window(open_report: Open, width: int, length: int) -> None:
    page = open_report(random_report(length, heads=12, layers=2), width=width)
    assert no_sideways_scroll(page)
    assert page.locator("#arcs svg").count() == (length == 10)
    page.keyboard.press("p")
    page.keyboard.press("]")
    settle(page)
    assert no_sideways_scroll(page)


HOSTILE = [
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\u2028", '" onclick="x',
    "\u202eabc", "\ud800", "x" * 10_000, "\n", "", "\x00", "&amp;", "{{ 7 * 7 }}", "${1}",
]  # fmt: skip


def test_hostile_texts_are_shown_and_do_nothing(open_report: Open) -> None:
    evil = "</script>\u2028\"'\u202e<img src=x onerror=alert(2)>" + "W" * 300
    report = random_report(len(HOSTILE), tokens=HOSTILE, name=evil, heads=3)
    two = replace(report, title=evil, facts=[evil], notes=[evil], texts=report.texts * 2)
    page = open_report(two, width=400)
    shown = page.eval_on_selector_all("#text bdi", "(all) => all.map((e) => e.textContent)")
    assert shown == [visible(token, 80) or "∅" for token in HOSTILE]
    assert page.locator("img").count() == 0
    assert no_sideways_scroll(page)


def test_another_text(open_report: Open, sample: Report) -> None:
    other = random_report(9, heads=9, layers=9).texts[0]
    renamed = {layer: other.layers[n] for n, layer in enumerate(sample.layers[:-1])}
    report = replace(sample, texts=[sample.texts[0], replace(other, layers=renamed)])
    page = open_report(report)
    page.select_option("#text-choice", index=1)
    settle(page)
    assert "9 queries down" in text_of(page, "#map-caption")
    assert page.locator("#text bdi").count() == 9
    click_head(page, 8, 0)
    assert text_of(page, "#no-map") == "No map of layer 29 was kept for this text."


def test_both_directions_and_few_queries(open_report: Open) -> None:
    report = random_report(60, causal=False)
    text, view = report.texts[0], report.texts[0].layers[0]
    assert view.block_max is not None
    last = replace(
        view,
        block_mean=view.block_mean[:, -1:],
        block_max=view.block_max[:, -1:],
        entropy=view.entropy[:, -1:],
        top_weights=None,
        top_keys=None,
    )
    decoding = replace(text, query_len=1, first_position=59, layers={0: last})
    page = open_report(replace(report, texts=[text, decoding]))
    assert "keys after" in page.text_content("#curve")
    page.select_option("#text-choice", index=1)
    settle(page)
    page.mouse.move(*point_at(page, 0, 30))
    settle(page)
    assert text_of(page, "#readout").startswith(f"query 0 “{text.tokens[59]}” → key 30")


@pytest.mark.parametrize("lacking", ["texts", "numbers", "tokens", "distances"])
def test_empty_states(open_report: Open, lacking: str) -> None:
    report = random_report(12)
    text = replace(report.texts[0], tokens=None) if lacking == "tokens" else report.texts[0]
    if lacking == "distances":
        bare = replace(text.layers[0], normalized_offset_mass=np.zeros((2, 0)))
        text = replace(text, distances=[], layers={0: bare})
    numbers = {} if lacking == "numbers" else report.numbers
    texts = [] if lacking == "texts" else [text]
    page = open_report(replace(report, numbers=numbers, texts=texts))
    said = {
        "texts": ("#no-map", "No text was kept: this page shows the numbers of heads only."),
        "numbers": ("#one-title", "Head 0.0"),
        "tokens": ("#text-caption", "The texts of the tokens are not known"),
        "distances": ("#curve-caption", "No weights by distance were kept"),
    }[lacking]
    assert text_of(page, said[0]).startswith(said[1])


def test_a_notebooks_frame(open_file: Open, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    frame = page_iframe(random_report(20, heads=4), height=700)
    path.write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    page = open_file(path, viewport={"width": 920, "height": 800})
    inside = page.frame_locator("iframe")
    inside.locator("html[data-ready]").wait_for()
    inside.locator("#grid button").nth(2).click()
    inside.locator("#one-title", has_text="Head 0.2").wait_for()
