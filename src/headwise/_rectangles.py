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
        h = _indices("heads", heads, sizes.heads)
        q = _indices("queries", queries, sizes.query_len)
        k = _indices("keys", keys, sizes.kv_len)
        out = self._compute(h, q, k)
        dropped = [sizes.num_heads is None or _is_index(heads), _is_index(queries), _is_index(keys)]
        kept = [len(c) for c, drop in zip((h, q, k), dropped, strict=True) if not drop]
        return out.reshape((*sizes.outer, *kept))

    def _compute(self, heads: Array, queries: Array, keys: Array) -> Array:
        items = int(np.prod(self.prepared.sizes.outer))
        query_runs, key_runs = _runs(queries), _runs(keys)
        rectangles = [
            (item, head, *_hull(queries[q]), *_hull(keys[k]))
            for item, head, q, k in product(range(items), heads, query_runs, key_runs)
        ]
        table = np.array(rectangles, dtype=np.int64).reshape(-1, 6)
        ends = np.cumsum((table[:, 3] - table[:, 2]) * (table[:, 5] - table[:, 4]))
        flat = self._fill(table, int(ends[-1]) if len(ends) else 0)
        shape = (items, len(heads), len(queries), len(keys))
        if len(key_runs) == 1 and flat.size == np.prod(shape):  # rows of the answer, in its order
            return flat.reshape(shape)
        out = np.empty(shape, flat.dtype)
        parts = iter(np.split(flat, ends[:-1]))
        for item, head, q, k in product(range(items), range(len(heads)), query_runs, key_runs):
            rows, columns = queries[q] - queries[q.start], keys[k] - keys[k.start]
            part = next(parts).reshape(rows[-1] + 1, columns[-1] + 1)
            out[item, head, q, k] = part[np.ix_(rows, columns)]
        return out

    def _fill(self, rectangles: Array, size: int) -> Array:
        """Have the kernel compute rectangles (item, head, query and key range), end to end."""
        p = self.prepared
        flat = np.empty(size, p.working_dtype)
        shape = np.broadcast_to(np.empty((), p.dtype), p.sizes.output)
        arguments = kernel_arguments(p, shape, self.statistics)
        _binding.weights(*arguments, rectangles, flat, *p.threads, _binding.instruction_set())
        return flat


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
    try:
        if index is None or isinstance(index, slice):
            return np.arange(*(slice(None) if index is None else index).indices(size))
        wanted = np.asarray(operator.index(index) if _is_index(index) else index)
        if wanted.size == 0 and wanted.ndim == 1:
            return np.arange(0)
        if wanted.ndim > 1 or wanted.dtype.kind not in "iub" or isinstance(index, bool | np.bool_):
            raise TypeError
        return _places(np.atleast_1d(wanted), size)
    except (IndexError, OverflowError):
        raise IndexError(f"{name} must lie within {size}, got {index}") from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an index, a slice, a sequence of indices, a boolean array or None, "
            f"got {index!r}"[:200]
        ) from None


def _places(wanted: Array, size: int) -> Array:
    """Return the positions that whole numbers or truth values pick, as NumPy does."""
    if wanted.dtype.kind == "b":
        if len(wanted) != size:
            raise IndexError
        return np.flatnonzero(wanted)
    if wanted.min() < -size or wanted.max() >= size:
        raise IndexError
    places = wanted.astype(np.int64)
    return np.where(places < 0, places + size, places)


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
