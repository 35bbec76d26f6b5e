"""Numbers among the arguments: checked once, in one wording."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

_TRUTHS = (bool, np.bool_)


def whole_number(name: str, x: Any, least: int | None = 0) -> int:
    """Return a whole number of at least ``least``; None is no bound.

    Raises
    ------
    TypeError, ValueError
        For anything else, truth values included.
    """
    try:
        number = None if isinstance(x, _TRUTHS) else operator.index(x)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} must be a whole number, got {x!r}"[:200])
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return number


def finite_number(name: str, x: Any, otherwise: str = "") -> float:
    """Return a finite number as a float; ``otherwise`` says what else the argument may be.

    Raises
    ------
    TypeError, ValueError
        For anything else, texts and truth values included.
    """
    try:
        number = None if isinstance(x, (*_TRUTHS, str, bytes)) else float(x)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        number = None
    if number is None:
        raise TypeError(f"{name} must be a number{otherwise}, got {x!r}"[:200])
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number
