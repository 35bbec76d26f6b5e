"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def table_html(caption: str, titles: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """Return an HTML table; all texts are escaped.

    Examples
    --------
    >>> from headwise._html import table_html
    >>> table_html("a < b", ["x"], [["1"]])
    '<table><caption>a &lt; b</caption><thead><tr><th>x</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'
    """  # noqa: E501
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    rows = ("".join(f"<td>{escape(text)}</td>" for text in line) for line in lines)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
