"""A headless Chromium, and pages opened in it that may ask for nothing and must report no error."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwise.lens.page import render_page
from headwise.lens.views import Report

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install it")
    if not CHROMIUM:
        pytest.skip("no Chromium here and none could be installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield chromium
        chromium.close()


def let_through(route: Any, allowed: str, faults: list[str]) -> None:
    if route.request.url == allowed:
        route.continue_()
    else:
        faults.append(f"a request: {route.request.url}")
        route.abort()


@pytest.fixture
def open_file(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file; afterwards, no page may have asked for anything or reported an error."""
    faults: list[str] = []
    contexts = []

    def opened(path: Path, **options: Any) -> Any:
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.set_default_timeout(8_000)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: (faults.append("a dialog"), dialog.dismiss()))
        page.route("**/*", lambda route: let_through(route, path.as_uri(), faults))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def open_report(open_file: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Open a report's page, or a page that is made already, and wait until it is painted."""

    def opened(report: Report | str, *, width: int = 1440, **options: Any) -> Any:
        path = tmp_path / "page.html"
        text = report if isinstance(report, str) else render_page(report)
        path.write_text(text, encoding="utf-8")
        page = open_file(path, viewport={"width": width, "height": 900}, **options)
        page.wait_for_selector("html[data-ready]")
        return page

    return opened
