"""What transformers' mask functions show, said with masks of headwise: n numbers instead of n × n.

A mask function tells for batch item, head, query and key whether it may be seen. Models build
theirs from the parts in `transformers.masking_utils`; a *reader* knows one such part by its code,
takes its numbers out of it, and says the same with a mask. Nothing is taken on trust: a reader is
only used where it agrees with the part itself on a small example, so that a part whose meaning
changes is no longer read, and not misread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import masking_utils

from headwise._arrays import Array
from headwise._mask_kinds import Dense, Mask
from headwise.masks import causal, documents, lengths, window

EVERYTHING = window()
Parts = dict[str, Any]  # what a mask function was made from, by the names in its closure


class Unread(Exception):  # noqa: N818
    """No reader knows a mask function, or this use of it."""


class Places(NamedTuple):
    """Where queries and keys stand, each ``(length,)``, or ``(batch, length)`` if items differ."""

    queries: Array
    keys: Array
    packed: Array | None = None  # which sequence each place belongs to, where masks keep them apart


Reader = Callable[[Parts, Places], Mask]


def read(function: Any, places: Places) -> Mask:
    """Return what a mask function shows of some places.

    Raises
    ------
    Unread
        Where it can only be found out by asking the function for every pair.
    """
    reader = _reader_of(function)
    if reader is None:
        raise Unread
    return reader(_parts_of(function), places)


_READERS: dict[Any, Reader] = {}  # by the code of what they read


def _reader_of(function: Any) -> Reader | None:
    return _READERS.get(getattr(function, "__code__", None))


def _parts_of(function: Any) -> Parts:
    cells = function.__closure__ or ()
    names = function.__code__.co_freevars
    return dict(zip(names, (cell.cell_contents for cell in cells), strict=True))


def is_bidirectional(function: Any) -> bool:
    """Tell whether a mask function is known to look ahead as it looks back: an encoder's."""
    known = [_reader_of(leaf) for leaf in _leaves(function)]
    return bool({_everything, _window_both_ways} & {*known}) and _causal not in known


def _leaves(function: Any) -> list[Any]:
    if _reader_of(function) not in {_all_of, _any_of}:
        return [function]
    return [leaf for part in _parts_of(function)["mask_functions"] for leaf in _leaves(part)]


def _causal(_: Parts, __: Places) -> Mask:
    return causal()


def _everything(_: Parts, __: Places) -> Mask:
    return EVERYTHING


def _window(parts: Parts, _: Places) -> Mask:
    return window(left=_size(parts["sliding_window"] - 1))


def _window_both_ways(parts: Parts, _: Places) -> Mask:
    size = _size(parts["sliding_window"])
    return window(size, size)


def _size(number: Any) -> int:
    if number < 0 or number != int(number):  # shows nothing, or what has no name
        raise Unread
    return int(number)


def _chunks(parts: Parts, places: Places) -> Mask:
    size, begin = parts["chunk_size"], _numbers(parts["left_padding"])[:, None]
    return _same((places.queries - begin) // size, (places.keys - begin) // size)


def _padding(parts: Parts, places: Places) -> Mask:
    return padding(_at(_numbers(parts["padding_mask"]) != 0, places.keys))


def _packed(parts: Parts, places: Places) -> Mask:
    ids = _numbers(parts["packed_sequence_mask"])
    return _same(_at(ids, places.queries), _at(ids, places.keys))


def _blocks(parts: Parts, places: Places) -> Mask:
    ids = _numbers(parts["block_sequence_ids"])
    queries, keys = _at(ids, places.queries), _at(ids, places.keys)
    return _same(np.where(queries < 0, -1, queries), np.where(keys < 0, -2, keys))


def _all_of(parts: Parts, places: Places) -> Mask:
    return _join(and_, parts, places)


def _any_of(parts: Parts, places: Places) -> Mask:
    return _join(or_, parts, places)


def _join(sign: Any, parts: Parts, places: Places) -> Mask:
    functions = parts["mask_functions"]
    if sign is and_:
        places = places._replace(packed=_packed_ids(functions, places))
    masks = [read(function, places) for function in functions]
    return both(masks) if sign is and_ else reduce(or_, masks)


def _remapped(parts: Parts, places: Places) -> Mask:
    """Read a mask in terms of positions that begin anew with each packed sequence.

    Within a sequence they differ by as much as the places do. Other sequences must be hidden
    anyway, by a mask that this one is joined to.
    """
    positions, ids = _numbers(parts["position_ids"]), places.packed
    if ids is None or not _count_within(positions, ids):
        raise Unread
    queries, keys = _at(positions, places.queries), _at(positions, places.keys)
    return read(parts["mask_function"], Places(queries, keys, ids))


def _packed_ids(functions: Iterable[Any], places: Places) -> Array | None:
    """Return which sequence each place belongs to, where one of several masks keeps them apart."""
    for function in functions:
        if _reader_of(function) is _packed:
            return _numbers(_parts_of(function)["packed_sequence_mask"])
    return places.packed


def _count_within(positions: Array, ids: Array) -> bool:
    """Tell whether positions count up by 1 within each sequence, and sequences lie in one piece."""
    if positions.shape != ids.shape:
        return False
    same = ids[:, 1:] == ids[:, :-1]
    steps = np.diff(positions, axis=-1)
    return bool(np.all(steps[same] == 1) and np.all(np.diff(ids, axis=-1) >= 0))


def _same(queries: Array, keys: Array) -> Mask:
    """Return the mask of equal numbers, ``(batch or 1, length)`` each."""
    first = queries.flat[0] if queries.size else 0
    if np.all(queries == first) and np.all(keys == first):
        return EVERYTHING
    return documents(queries, keys)


def _at(table: Array, places: Array) -> Array:
    """Look places up in a table ``(batch, length)``."""
    if places.size and not 0 <= places.min() <= places.max() < table.shape[-1]:
        raise Unread
    if places.ndim == 1:
        return np.asarray(table[:, places])
    return np.asarray(np.take_along_axis(np.broadcast_to(table, (len(places), table.shape[1])),
                                         places, axis=1))  # fmt: skip


def _numbers(tensor: torch.Tensor) -> Array:
    array = np.asarray(tensor.detach().cpu().numpy())
    if array.dtype.kind not in "iub":
        raise Unread
    return array.astype(np.int64)


def padding(real: Array) -> Mask:
    """Return the mask of the keys that are real, ``(batch, length)``."""
    if real.all():
        return EVERYTHING
    length = real.shape[-1]
    begins = real.argmax(axis=-1)
    ends = np.where(real.any(axis=-1), length - real[:, ::-1].argmax(axis=-1), begins)
    if not np.array_equal(real.sum(axis=-1), ends - begins):  # with holes
        return Dense(np.ascontiguousarray(real[:, None, None, :]))
    sides = [
        lengths(ends) if np.any(ends < length) else EVERYTHING,
        lengths(length - begins, left=True) if np.any(begins > 0) else EVERYTHING,
    ]
    return both(sides)


def both(masks: Iterable[Mask]) -> Mask:
    """Join masks by ``&``, without those that hide nothing."""
    return reduce(and_, [mask for mask in masks if mask != EVERYTHING] or [EVERYTHING])


class Part(NamedTuple):
    """A part of mask functions: its reader, how the library makes one, and an example of its use.

    All of them are asked for with `transformers.masking_utils`, or what stands for it.
    """

    reader: Reader
    make: Callable[[Any], Any]
    example: Callable[[Any], Any] | None = None  # a mask function it is part of; None: itself


_LENGTH = 6  # of the examples, which are of two items
_IDS = torch.tensor([[0, 0, 1, 1, 1, 2], [0, 0, 0, 0, 0, 0]])
_POSITIONS = torch.tensor([[4, 5, 0, 1, 2, 0], [0, 1, 2, 3, 4, 5]])
_REAL = torch.tensor([[0, 1, 1, 1, 1, 0], [1, 1, 0, 1, 0, 1]]) == 1
_BLOCKS = torch.tensor([[-1, 0, 0, -1, 1, 1], [-1, -1, 2, 2, -1, 2]])
PARTS = [
    Part(_causal, lambda u: u.causal_mask_function),
    Part(_everything, lambda u: u.bidirectional_mask_function),
    Part(_window, lambda u: u.sliding_window_overlay(3)),
    Part(_window_both_ways, lambda u: u.sliding_window_bidirectional_overlay(2)),
    Part(_chunks, lambda u: u.chunked_overlay(2, torch.tensor([0, 1]))),
    Part(_padding, lambda u: u.padding_mask_function(_REAL)),
    Part(_packed, lambda u: u.packed_sequence_mask_function(_IDS)),
    Part(_blocks, lambda u: u.blockwise_overlay(_BLOCKS)),
    Part(_all_of, lambda u: u.and_masks(u.causal_mask_function, u.padding_mask_function(_REAL))),
    Part(_any_of, lambda u: u.or_masks(u.causal_mask_function, u.padding_mask_function(_REAL))),
    Part(
        _remapped,
        lambda u: u.remap_positions_for_packed_sequence(u.causal_mask_function, _POSITIONS),
        lambda u: u.and_masks(
            u.remap_positions_for_packed_sequence(u.sliding_window_overlay(2), _POSITIONS),
            u.packed_sequence_mask_function(_IDS),
        ),
    ),
]


def learn(library: Any = masking_utils) -> None:
    """Find the parts in the library, and keep the readers that agree with them."""
    _READERS.clear()
    for reader, make, example in PARTS:
        try:
            own = make(library)
            whole = own if example is None else example(library)
        except Exception:  # the library has no such part, or makes it otherwise
            continue
        _READERS[own.__code__] = reader
        if not _agrees(whole):
            del _READERS[own.__code__]


def _agrees(function: Any) -> bool:
    """Tell whether a mask function is read right, on the places of the examples."""
    batch, i = torch.arange(2)[:, None, None, None], torch.arange(_LENGTH)
    shape = (len(batch), 1, _LENGTH, _LENGTH)
    try:
        asked = function(batch, 0 * batch[:1], i[:, None], i).numpy()
        seen = read(function, Places(i.numpy(), i.numpy())).to_array(_LENGTH, _LENGTH)
        return np.array_equal(np.broadcast_to(asked, shape), np.broadcast_to(seen, shape))
    except Exception:  # whatever a part that has changed may do
        return False


learn()
