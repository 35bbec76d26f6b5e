"""Exact weights of any rectangle: index expressions become runs, which the kernel fills."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from headwise import _binding
from headwise._arrays import Array
from headwise._errors import listing
from headwise._prepare import Prepared

KEPT = ("row_maximum", "row_total")  # kept of every row: from them any weight is recomputed


class Rectangles:
    """Picks the rectangles of an index expression and has the kernel fill them."""

    def __init__(self, prepared: Prepared, rows: dict[str, Array]) -> None:
        self.prepared = prepared
        self.statistics = [(_binding.STATISTICS[name], rows[name]) for name in KEPT]

    def select(self, heads: Any, queries: Any, keys: Any) -> Array:
        sizes = self.prepared.sizes
        if sizes.num_heads is None and heads is not None:
            raise IndexError("heads was given, but the query has 2 dimensions and no heads")
        axes = [
            ("heads", heads, sizes.num_heads or 1),
            ("queries", queries, sizes.query_len),
            ("keys", keys, sizes.kv_len),
        ]
        chosen = [_indices(*axis) for axis in axes]
        items = int(np.prod(sizes.outer))
        out = np.empty((items, *(len(c) for c in chosen)), self.prepared.dtype)
        for item in range(items):
            for h, head in enumerate(chosen[0]):
                self._fill(out[item, h], item, int(head), chosen[1], chosen[2])
        dropped = [sizes.num_heads is None or _is_index(heads), _is_index(queries), _is_index(keys)]
        kept = [len(c) for c, drop in zip(chosen, dropped, strict=True) if not drop]
        return out.reshape(*sizes.outer, *kept)

    def _fill(self, out: Array, item: int, head: int, queries: Array, keys: Array) -> None:
        for q in _runs(queries):
            for k in _runs(keys):
                rectangle = (item, head, *_bounds(queries[q]), *_bounds(keys[k]))
                part = np.empty(out[q, k].shape, out.dtype)
                self._compute(rectangle, part)
                out[q, k] = part

    def _compute(self, rectangle: tuple[int, ...], part: Array) -> None:
        p = self.prepared
        shape = np.broadcast_to(np.empty((), p.dtype), p.sizes.output)
        _binding.weights(
            p.query,
            p.key,
            p.value,
            shape,
            p.boolean,
            p.bias,
            p.scale,
            p.band.left,
            p.band.right,
            0 if p.query_offset is None else p.query_offset,
            self.statistics,
            rectangle,
            part,
            p.num_threads,
            _binding.instruction_set(),
        )


def _is_index(index: Any) -> bool:
    return isinstance(index, int | np.integer) and not isinstance(index, bool)


def _indices(name: str, index: Any, size: int) -> Array:
    """Return the positions that an index, slice, sequence or None picks out of ``size``."""
    everything = np.arange(size)
    if index is None:
        return everything
    try:
        return np.atleast_1d(
            everything[index if isinstance(index, slice) else np.asarray(index, int)]
        )
    except IndexError:
        raise IndexError(f"{name} must lie within {size}, got {index}") from None
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be {listing(('an index', 'a slice', 'a sequence of indices', 'None'))}, "
            f"got {index!r}"
        ) from None


def _runs(indices: Array) -> list[slice]:
    """Cut indices into runs of consecutive ones."""
    if not len(indices):
        return []
    cuts = [0, *(np.flatnonzero(np.diff(indices) != 1) + 1).tolist(), len(indices)]
    return [slice(a, b) for a, b in pairwise(cuts)]


def _bounds(run: Array) -> tuple[int, int]:
    return int(run[0]), int(run[-1]) + 1
