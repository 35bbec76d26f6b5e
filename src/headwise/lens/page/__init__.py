"""The page: one HTML file with everything in it, which makes no request of any kind.

`contents` says what it holds, `budget` how much of it, `packing` in which form; the templates show
it. Its security policy allows nothing but the page's own style and script, by their digests.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

import jinja2
from markupsafe import Markup, escape

import headwise
from headwise._numbers import whole_number
from headwise.lens.page.budget import LIMIT
from headwise.lens.page.contents import clipped, contents
from headwise.lens.page.packing import script_json
from headwise.lens.tokens import visible
from headwise.lens.views import Report

SCRIPTS = (
    "data", "words", "colours", "state", "grid", "ranking", "map", "marks", "pointer", "curve",
    "keys", "text", "arcs", "numbers", "head", "controls", "main",
)  # fmt: skip
STYLES = ("page", "parts", "print")


def render_page(report: Report, *, measure: str | None = None) -> str:
    """Return a report as one HTML file of less than 5 MB.

    Parameters
    ----------
    report
        What to show; texts that are too much for the limit are shown in less detail, and the page
        says so.
    measure
        The measure to begin with; None is induction, previous_token or the first one.

    Raises
    ------
    ValueError
        Where the report has no such measure.

    Examples
    --------
    >>> from headwise import lens
    >>> from headwise.lens.page import render_page
    >>> page = render_page(lens.profile(lens.load_sample()).report())
    >>> page[:15], len(page.encode()) < 5_000_000
    ('<!doctype html>', True)
    """
    fixed = len(_render(report, {}).encode())
    return _render(report, contents(report, measure, LIMIT - fixed))


def page_iframe(report: Report, *, height: int = 760, measure: str | None = None) -> str:
    """Return the page in a frame of its own, for a notebook: what ``_repr_html_`` may return.

    Parameters
    ----------
    report, measure
        As in `render_page`.
    height
        Of the frame, in pixels.

    Examples
    --------
    >>> from headwise import lens
    >>> from headwise.lens.page import page_iframe
    >>> page_iframe(lens.profile(lens.load_sample()).report(), height=600)[:39]
    '<iframe sandbox="allow-scripts" style="'
    """
    height = whole_number("height", height, least=1)
    style = f"display:block;width:100%;height:{height}px;border:0"
    title = escape(f"Attention heads of {visible(report.title, 80)}")
    page = escape(render_page(report, measure=measure))
    return (
        f'<iframe sandbox="allow-scripts" style="{style}" title="{title}" srcdoc="{page}"></iframe>'
    )


def _render(report: Report, data: dict[str, object]) -> str:
    style, script = _style(), _script()
    return _template().render(
        title=visible(report.title, 120) or "Attention heads",
        facts=clipped(report.facts),
        version=headwise.__version__,
        data=Markup(script_json(data)),
        style=Markup(style),
        style_digest=_digest(style),
        script=Markup(script),
        script_digest=_digest(script),
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_read("page.html.j2"))


@cache
def _style() -> str:
    return "\n".join(_read(f"{name}.css") for name in STYLES)


@cache
def _script() -> str:
    """Return all scripts as one, in a scope of its own."""
    parts = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _read(name: str) -> str:
    return (resources.files("headwise.lens") / "templates" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the digest by which the policy knows a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
