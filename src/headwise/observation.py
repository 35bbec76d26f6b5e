"""Attention with everything in view: log-sum-exp, row statistics and exact weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from headwise import _binding
from headwise._arrays import Array, dtype_name, like
from headwise._collecting import BOUND, Collecting, bounded_by
from headwise._deriving import derive
from headwise._errors import shape_text
from headwise._html import table_html
from headwise._positions import raise_missing_offset
from headwise._prepare import Prepared, prepare
from headwise._rectangles import KEPT, Rectangles
from headwise.attention import run
from headwise.observers import Observer, Tile, check_observer
from headwise.statistics import (
    SECOND_PASS,
    STATISTICS,
    AnyStatistic,
    SecondPass,
    Statistic,
    resolve,
)


class Observation:
    """What `headwise.observe` saw.

    Attributes
    ----------
    output
        ``(..., num_heads, query_len, value_dim)``: the same bits as the plain call.
    lse
        ``(..., num_heads, query_len)``: natural log-sum-exp of the scores; -inf where a query sees
        no key. With a sink, the sink's score counts.
    empty_rows
        ``(..., num_heads)``: how many queries see no key. They count in no mean.

    Each statistic asked for is an attribute under its name in `headwise.statistics`: of the same
    shape as `lse`, or as the second pass's statistics say. `weights` gives any rectangle of the
    exact weights, `run` hands all of them to an observer of your own; both compute them when they
    are called, from the query and key that were given, so leave those unchanged until then.
    """

    def __init__(
        self,
        query: Any,
        prepared: Prepared,
        output: Array,
        rows: dict[str, Array],
        chosen: list[AnyStatistic],
        *,
        collected: dict[str, Any],
    ) -> None:
        self._query = query
        self._prepared = prepared
        self._rows = rows
        self._chosen = {statistic.name: statistic for statistic in chosen}
        self._collected = collected
        self.output = like(query, output)
        self.lse = like(query, rows["lse"])

    @property
    def empty_rows(self) -> Any:
        """Return how many queries of each head see no key: ``(..., num_heads)``."""
        empty = np.count_nonzero(np.isneginf(self._rows["lse"]), axis=-1)
        return like(self._query, np.asarray(empty))

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics that were asked for."""
        return tuple(self._chosen)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._chosen:
            self._refuse(name)
        if name in self._collected:
            return _alike(self._query, self._collected[name])
        return like(self._query, derive(name, self._rows, self._prepared.scoring.sinks))

    def _refuse(self, name: str) -> NoReturn:
        known: dict[str, AnyStatistic] = {**STATISTICS, **SECOND_PASS}
        if name not in known:
            raise AttributeError(f"an observation has no {name!r}")
        if self._prepared.query_offset is None and known[name].positional:
            raise AttributeError(
                f"{name} was not observed: it depends on positions; call observe with query_offset="
            )
        raise AttributeError(f"{name} was not observed: name it in observe(..., statistics=)")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._chosen})

    def _repr_html_(self) -> str:
        """Return what was seen as a table, for notebooks."""
        lines = []
        for name in ("lse", *self._chosen):
            result = getattr(self, name)
            numbers = np.asarray(result[0] if isinstance(result, tuple) else result)
            finite = numbers[np.isfinite(numbers) & (numbers.dtype.kind == "f")]
            mean = f"{finite.mean():.4g}" if finite.size else "–"
            meaning = self._chosen[name].meaning if name in self._chosen else "log-sum-exp"
            lines.append([name, shape_text(numbers.shape), mean, meaning])
        output = f"{shape_text(self._prepared.sizes.output)} {dtype_name(self._prepared.query)}"
        return table_html(f"Observation: output {output}", ["name", "shape", "mean", ""], lines)

    def __repr__(self) -> str:
        dtype = dtype_name(self._prepared.query)
        output = f"output {shape_text(self._prepared.sizes.output)} {dtype}"
        return f"<Observation: {output}, {', '.join(('lse', *self._chosen))}>"

    def weights(self, heads: Any = None, queries: Any = None, keys: Any = None) -> Any:
        """Return the exact weights of a rectangle; nothing else is computed.

        Parameters
        ----------
        heads, queries, keys
            Each an index, a slice, a sequence of indices or None for all. An index drops its
            dimension, as in NumPy.

        Returns
        -------
        array
            ``(..., heads, queries, keys)``, rows of all keys adding to 1 (0 where no key is
            visible).

        Raises
        ------
        IndexError
            Where an index lies outside; where there is no head dimension and `heads` is given.

        Examples
        --------
        >>> import numpy as np, headwise
        >>> x = np.eye(3).reshape(1, 1, 3, 3)
        >>> seen = headwise.observe(x, x, x, headwise.causal())
        >>> seen.weights(heads=0, queries=1).round(3)
        array([[0.36, 0.64, 0.  ]])
        """
        return like(
            self._query, Rectangles(self._prepared, self._rows).select(heads, queries, keys)
        )

    def tiles(self, max_bytes: int = 32 << 20) -> Iterator[Tile]:
        """Yield the exact weights of all heads, some queries at a time.

        Parameters
        ----------
        max_bytes
            How large the weights of a tile may be; it holds one query at least.

        Examples
        --------
        >>> import numpy as np, headwise
        >>> x = np.zeros((1, 1, 4, 8))
        >>> seen = headwise.observe(x, x, x, headwise.causal())
        >>> [float(tile.weights.sum()) for tile in seen.tiles(max_bytes=64)]
        [2.0, 2.0]
        """
        sizes, working = self._prepared.sizes, self._prepared.working_dtype
        rectangles, keys = Rectangles(self._prepared, self._rows), np.arange(sizes.kv_len)
        row = math.prod(sizes.scores[:-2]) * sizes.kv_len * working.itemsize
        together = max(1, max_bytes // max(1, row))
        offset = self._prepared.query_offset
        for first in range(0, sizes.query_len, together):
            queries = np.arange(first, min(first + together, sizes.query_len))
            weights = rectangles.select(None, queries, None)
            positions = None if offset is None else np.asarray(offset)[..., None] + queries
            yield Tile(*_alike(self._query, (weights, queries, keys, positions)))

    def run(self, observer: Observer) -> Any:
        """Show all exact weights to an observer of your own and return what it saw.

        See `headwise.observers.Observer` for its four verbs and an example.
        """
        check_observer(observer)
        observer.init(self._prepared.sizes)
        for tile in self.tiles():
            observer.update(tile)
        return observer.finalize()


def observe(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    statistics: str | AnyStatistic | Iterable[str | AnyStatistic] | None = None,
    query_offset: Any = None,
    scale: float | None = None,
    bias: Any = None,
    softcap: float | None = None,
    sink_logits: Any = None,
    num_threads: int | None = None,
) -> Observation:
    """Attend as `headwise.scaled_dot_product_attention` does, and look at the weights in passing.

    Parameters
    ----------
    query, key, value, mask, query_offset, scale, bias, softcap, sink_logits, num_threads
        As in `headwise.scaled_dot_product_attention`.
    statistics
        Names from `headwise.statistics.STATISTICS`, or objects such as
        ``headwise.statistics.first_weight(4)``. None is all row statistics, less those that depend
        on positions where `query_offset` is needed and not given; ``"all"`` adds those of the
        second pass (`headwise.statistics.SECOND_PASS`).

    Returns
    -------
    Observation
        With ``output`` (the same bits as the plain call), ``lse``, one attribute for each statistic
        and the method ``weights``.

    Raises
    ------
    TypeError, ValueError
        As the plain call; and where a statistic depends on positions that are not known.

    Notes
    -----
    Row statistics cost one pass: they are kept row by row while the weights stream by. Those of the
    second pass need all weights once more, about half of a plain call for all of them. Either way
    memory grows with the numbers of queries and keys, and not with the number of weights.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> seen = headwise.observe(x, x, x, headwise.causal(), statistics=("entropy", "argmax"))
    >>> np.exp(seen.entropy).round(6)
    array([[[1., 2., 3., 4.]]])
    >>> seen.argmax
    array([[[0, 0, 0, 0]]])
    """
    prepared = prepare(
        query,
        key,
        value,
        mask,
        query_offset=query_offset,
        scale=scale,
        bias=bias,
        softcap=softcap,
        sink_logits=sink_logits,
        num_threads=num_threads,
    )
    chosen = _choose(statistics, prepared)
    of_rows = [statistic for statistic in chosen if isinstance(statistic, Statistic)]
    bounding = bounded_by(chosen)
    wanted = dict.fromkeys(
        ("lse", *KEPT, *(source for statistic in of_rows for source in statistic.sources))
    ) | dict.fromkeys([BOUND] if bounding else [])
    output = np.empty(prepared.sizes.output, prepared.dtype)
    rows = _row_arrays(list(wanted), prepared)
    first = max((statistic.first_keys or 1 for statistic in of_rows), default=1)
    how = (max(1, min(first, prepared.sizes.kv_len)), bounding or 1)
    collected: dict[str, Any] = {}
    if second := [statistic for statistic in chosen if isinstance(statistic, SecondPass)]:
        collected = Collecting(prepared, output, rows, second).run(*how)
    else:
        run(prepared, output, rows, *how)
    return Observation(query, prepared, output, rows, chosen, collected=collected)


def _choose(statistics: Any, prepared: Prepared) -> list[AnyStatistic]:
    known = prepared.query_offset is not None
    if statistics is None:
        return [s for s in STATISTICS.values() if known or not s.positional]
    chosen = resolve(statistics)
    if isinstance(statistics, str) and statistics == "all":
        return [s for s in chosen if known or not s.positional]
    for statistic in chosen:
        if statistic.positional and not known:
            raise_missing_offset(prepared.sizes, f"the statistic {statistic.name}")
    return chosen


def _row_arrays(names: list[str], prepared: Prepared) -> dict[str, Array]:
    """Return an array for each name, all of a kind side by side in memory."""
    counts = [name for name in names if name in _binding.COUNTS]
    numbers = [name for name in names if name not in _binding.COUNTS]
    shape = prepared.sizes.rows
    rows = dict(zip(numbers, np.empty((len(numbers), *shape), prepared.working_dtype), strict=True))
    rows.update(zip(counts, np.empty((len(counts), *shape), np.int64), strict=True))
    return rows


def _alike(x: Any, result: Any) -> Any:
    """Bring a statistic's arrays to the type of ``x``."""
    if isinstance(result, tuple):
        parts = (_alike(x, part) for part in result)
        return tuple(parts) if type(result) is tuple else type(result)(*parts)
    return like(x, result) if isinstance(result, np.ndarray) else result
