"""Exact weights of any rectangle: index expressions become runs, which the kernel fills."""

from __future__ import annotations

import operator
from itertools import pairwise, product
from typing import Any

import numpy as np

from headwise import _binding
from headwise._arrays import Array
from headwise._prepare import Prepared
from headwise.attention import kernel_arguments

KEPT = ("row_maximum", "row_total")  # kept of every row: from them any weight is recomputed
_GAP = 64  # indices closer than this share a run: what lies between costs less than another run


class Rectangles:
    """Picks the rectangles of an index expression and has the kernel fill them, all in one call."""

    def __init__(self, prepared: Prepared, rows: dict[str, Array]) -> None:
        self.prepared = prepared
        self.statistics = {name: rows[name] for name in KEPT}

    def select(self, heads: Any, queries: Any, keys: Any) -> Array:
        """Return the weights ``(..., heads, queries, keys)``."""
        sizes = self.prepared.sizes
        if sizes.num_heads is None and heads is not None:
            raise IndexError("heads was given, but the query has 2 dimensions and no heads")
        num_heads = 1 if sizes.num_heads is None else sizes.num_heads
        h = _indices("heads", heads, num_heads)
        q = _indices("queries", queries, sizes.query_len)
        k = _indices("keys", keys, sizes.kv_len)
        out = self._compute(h, q, k)
        dropped = [sizes.num_heads is None or _is_index(heads), _is_index(queries), _is_index(keys)]
        kept = [len(c) for c, drop in zip((h, q, k), dropped, strict=True) if not drop]
        return out.reshape(*sizes.outer, *kept)

    def _compute(self, heads: Array, queries: Array, keys: Array) -> Array:
        items = int(np.prod(self.prepared.sizes.outer))
        out = np.empty((items, len(heads), len(queries), len(keys)), self.prepared.dtype)
        query_runs, key_runs = _runs(queries), _runs(keys)
        rectangles = [
            (item, head, *_hull(queries[q]), *_hull(keys[k]))
            for item, head, q, k in product(range(items), heads, query_runs, key_runs)
        ]
        parts = iter(self._fill(np.array(rectangles, dtype=np.int64).reshape(-1, 6)))
        for item, head, q, k in product(range(items), range(len(heads)), query_runs, key_runs):
            rows, columns = queries[q] - queries[q].min(), keys[k] - keys[k].min()
            out[item, head, q, k] = next(parts)[np.ix_(rows, columns)]
        return out

    def _fill(self, rectangles: Array) -> list[Array]:
        """Have the kernel compute rectangles (item, head, query and key range); return each."""
        heights = rectangles[:, 3] - rectangles[:, 2]
        widths = rectangles[:, 5] - rectangles[:, 4]
        ends = np.cumsum(heights * widths)
        p = self.prepared
        flat = np.empty(int(ends[-1]) if len(ends) else 0, p.dtype)
        shape = np.broadcast_to(np.empty((), p.dtype), p.sizes.output)
        arguments = kernel_arguments(p, shape, self.statistics)
        _binding.weights(*arguments, rectangles, flat, p.num_threads, _binding.instruction_set())
        parts = np.split(flat, ends[:-1]) if len(ends) else []
        return [part.reshape(size) for part, *size in zip(parts, heights, widths, strict=True)]


def _is_index(index: Any) -> bool:
    """Tell whether an index drops its dimension: a whole number, also in an array."""
    if isinstance(index, bool | np.bool_):
        return False
    try:
        operator.index(index)
    except TypeError:
        return False
    return True


def _indices(name: str, index: Any, size: int) -> Array:
    """Return the positions that an index expression picks; None picks all."""
    everything = np.arange(size)
    if index is None or isinstance(index, slice):
        return everything if index is None else everything[index]
    try:
        wanted = np.asarray(operator.index(index) if _is_index(index) else index)
        if wanted.size == 0 and wanted.ndim == 1:
            return everything[:0]
        if wanted.ndim > 1 or wanted.dtype.kind not in "iub" or isinstance(index, bool | np.bool_):
            raise TypeError
        return np.atleast_1d(everything[wanted])
    except IndexError:
        raise IndexError(f"{name} must lie within {size}, got {index}") from None
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"{name} must be an index, a slice, a sequence of indices, a boolean array or None, "
            f"got {index!r}"[:200]
        ) from None


def _runs(indices: Array) -> list[slice]:
    """Cut indices into runs of ascending ones that lie close together."""
    if not len(indices):
        return []
    steps = np.diff(indices)
    cuts = np.flatnonzero((steps < 1) | (steps > _GAP)) + 1
    edges = [0, *cuts.tolist(), len(indices)]
    return [slice(a, b) for a, b in pairwise(edges)]


def _hull(run: Array) -> tuple[int, int]:
    return int(run[0]), int(run[-1]) + 1
