"""Texts of tokens as a reader can see them, whatever is in them."""

from __future__ import annotations

import unicodedata

_SIGNS = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x7f": "␡"}
_JOINERS = "\u200c\u200d"  # they belong between letters, and between the parts of an emoji
_HIDDEN = {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp", "Zs"}  # categories that show nothing or turn lines


def visible(text: str, most: int | None = None) -> str:
    r"""Return a text with a sign for everything that shows nothing or would disturb its neighbours.

    Line breaks, tabs and control characters become the signs that stand for them; other spaces,
    marks that turn the direction of writing, and halves of surrogate pairs become their numbers;
    a combining mark at the start gets a circle to sit on. Plain spaces stay.

    Parameters
    ----------
    text
        Any text.
    most
        Cut the result to so many characters, the last one being "…".

    Examples
    --------
    >>> from headwise.lens.tokens import visible
    >>> print(visible("a\tb\n"), visible("\u202eabc"), visible("\ud800"), visible("abcdef", 4))
    a⇥b⏎ ‹202E›abc ‹D800› abc…
    """
    shown = text if most is None else text[: most + 1]
    if not (shown.isascii() and shown.isprintable()):
        alone = not shown.strip(_JOINERS)
        signs = [c if c in _JOINERS and not alone else _visible_sign(c) for c in shown]
        shown = ("◌" if shown and unicodedata.combining(shown[0]) else "") + "".join(signs)
    return shown if most is None or len(shown) <= most else shown[: most - 1] + "…"


def _visible_sign(sign: str) -> str:
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign < " ":
        return chr(0x2400 + ord(sign))
    if sign != " " and unicodedata.category(sign) in _HIDDEN:
        return f"‹{ord(sign):04X}›"
    return sign


def marked(text: str, most: int) -> str:
    """Return a token's visible text for a label: a dot for each space, cut to ``most``.

    Examples
    --------
    >>> from headwise.lens.tokens import marked
    >>> marked(" the lighthouse", 10)
    '·the·ligh…'
    """
    return visible(text, most).replace(" ", "·") or "(empty)"
