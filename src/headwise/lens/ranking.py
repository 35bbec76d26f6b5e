"""Which heads have most of a measure, and the ends of its colours."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headwise._arrays import Array
from headwise.lens.measures import KINDS, MEASURES, Measure
from headwise.lens.views import Report

_TELLING = ("induction", "previous_token", "duplicate_token", "next_token", "first_key")


def ends(name: str, *tables: Array) -> tuple[float, float]:
    """Return the least and the greatest number of a measure's colour scale.

    From 0 to 1 for weights and shares, else from 0, or the least number where that is negative, to
    the largest one in the tables.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.lens.ranking import ends
    >>> ends("entropy", np.array([[0.5, 3.0], [np.nan, 2.0]]))
    (0.0, 3.0)
    """
    if MEASURES[name].unit in {"weight", "share"}:
        return 0.0, 1.0
    numbers = np.concatenate([table[np.isfinite(table)] for table in tables])
    low = min(0.0, float(numbers.min(initial=0.0)))
    top = float(numbers.max(initial=low))
    return low, top if top > low else low + 1.0


def ranked(table: Array, count: int) -> list[tuple[int, int, float]]:
    """Return the heads with most, as (row of the table, head, number), largest first.

    Heads without a number are left out; of equal ones the first in the table comes first.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.lens.ranking import ranked
    >>> ranked(np.array([[0.5, 0.75], [np.nan, 0.25]]), 2)
    [(0, 1, 0.75), (0, 0, 0.5)]
    """
    order = np.argsort(-table, axis=None, kind="stable")  # NaN comes last
    rows, heads = np.unravel_index(order[:count], table.shape)
    found = zip(rows.tolist(), heads.tolist(), strict=True)
    return [(r, h, float(table[r, h])) for r, h in found if np.isfinite(table[r, h])]


def kinds(numbers: Mapping[str, Array]) -> list[Measure]:
    """Return the kinds of head that there are numbers for."""
    return [m for m in KINDS if m.name in numbers]


def num_heads(report: Report) -> int:
    """Return how many heads each layer of a report has."""
    for table in report.numbers.values():
        return int(table.shape[1])
    views = (view for text in report.texts for view in text.layers.values())
    return max((len(view.block_mean) for view in views), default=0)


def telling(numbers: Mapping[str, Array]) -> str:
    """Return the measure to begin with: the first kind that some head is of, else the first one.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.lens.ranking import telling
    >>> telling({"entropy": np.ones((1, 1)), "induction": np.array([[0.1]])})
    'entropy'
    >>> telling({"entropy": np.ones((1, 1)), "induction": np.array([[0.6]])})
    'induction'
    """
    for name in _TELLING:
        if name in numbers and np.nanmax(numbers[name], initial=0) >= MEASURES[name].least:
            return name
    return next(iter(numbers))
