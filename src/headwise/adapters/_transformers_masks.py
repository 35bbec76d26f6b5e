"""The mask function: what a model is given in place of a mask of n × n numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import masking_utils

from headwise._arrays import Array
from headwise._mask_kinds import Band, Dense, Mask, operands
from headwise.adapters._transformers_readers import (
    EVERYTHING,
    Places,
    Unread,
    both,
    is_bidirectional,
    padding,
    read,
)
from headwise.adapters._transformers_refusals import refuse_tracing
from headwise.adapters._transformers_tensors import Deferred


@dataclass(frozen=True, eq=False)
class Visible:
    """What a mask shows, and which tokens are real: None where all are.

    Of a bidirectional mask as long as it is wide nobody says whether queries and keys are the same
    tokens; ``real_queries`` takes them to be, and whoever uses it has to know better.
    """

    mask: Mask
    query_offset: int | None
    real_queries: Array | None = None  # (batch or 1, query_len)
    real_keys: Array | None = None  # (batch or 1, kv_len)
    bidirectional: bool = False
    first_key: int = 0  # where key 0 stands in the text


class MaskTensor(Deferred):
    """A mask as it travels through a model: where it is touched, the one that ``eager`` is given.

    That is ``(batch, 1, query_len, kv_len)`` numbers to add, 0 or the dtype's most negative one.
    """

    visible: Visible

    @staticmethod
    def of(visible: Visible, shape: tuple[int, int, int, int], dtype: torch.dtype) -> MaskTensor:
        """Return the tensor of what is visible."""

        def make() -> torch.Tensor:
            seen = visible.mask.to_array(*shape[2:], visible.query_offset or 0)
            hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype)
            numbers = torch.where(torch.from_numpy(seen), torch.zeros((), dtype=dtype), hidden)
            return numbers.expand(shape).clone()

        made: MaskTensor = MaskTensor(shape, dtype, make=make)
        made.visible = visible
        return made


def mask_function(
    *,
    batch_size: int,
    kv_length: int,
    q_length: int | None = None,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    cache_position: Any = None,
    attention_mask: Any = None,
    dtype: torch.dtype = torch.float32,
    allow_is_bidirectional_skip: bool = False,
    **others: Any,
) -> MaskTensor | None:
    """Return a model's mask, as `transformers.AttentionMaskInterface` asks for it.

    Parameters
    ----------
    batch_size, kv_length, q_length, q_offset, kv_offset
        Sizes, and where the first query and the first key stand.
    cache_position
        Where the queries stand, in older versions in place of ``q_length`` and ``q_offset``.
    attention_mask
        ``(batch, length)``, True = a real token; shorter ones are padded.
    dtype
        The model's.
    allow_is_bidirectional_skip
        Whether None may be returned where everything is visible, as ``eager`` does.
    **others
        ``mask_function``, which tells what is visible, and what the library's own function takes.
    """
    refuse_tracing(attention_mask)
    q_offset, kv_offset = int(q_offset), int(kv_offset)
    asked = {"batch_size": batch_size, "kv_length": kv_length, "kv_offset": kv_offset, **others}
    asked |= {"attention_mask": attention_mask, "dtype": dtype}
    if cache_position is None:
        queries = q_offset + np.arange(q_length or 0)
        asked |= {"q_length": q_length, "q_offset": q_offset}
    else:
        queries = cache_position.cpu().numpy()
        asked |= {"cache_position": cache_position}
    visible = _visible(queries, kv_offset + np.arange(kv_length), attention_mask, asked)
    if allow_is_bidirectional_skip and visible.mask == EVERYTHING:
        return None
    return MaskTensor.of(visible, (batch_size, 1, len(queries), kv_length), dtype)


def _visible(queries: Array, keys: Array, real: Any, asked: dict[str, Any]) -> Visible:
    function = asked["mask_function"]
    offset: int | None = int(queries[0] - asked["kv_offset"]) if len(queries) else 0
    tokens = _Tokens(queries, keys, real, is_bidirectional(function))
    try:
        if tokens.odd:
            raise Unread
        mask = both([read(function, Places(queries, keys)), padding(tokens.given_keys)])
    except Unread:
        mask = Dense(_ask(asked).numpy())  # now: what it is made from may change
    if tokens.bidirectional and len(queries) != len(keys) and not positional(mask):
        offset = None  # of a decoder's queries and an encoder's keys
    first_key = int(asked["kv_offset"])
    return Visible(mask, offset, tokens.queries, tokens.keys, tokens.bidirectional, first_key)


def positional(mask: Mask) -> bool:
    """Tell whether what a mask shows depends on where queries and keys stand."""
    bands = [part for part in operands(mask, Mask) if isinstance(part, Band)]
    return any(band != EVERYTHING for band in bands)


def _ask(asked: dict[str, Any]) -> torch.Tensor:
    """Have the library ask the mask function for every pair: ``(batch, 1, query_len, kv_len)``."""
    never = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    if "cache_position" in asked:
        never |= {"allow_torch_fix": False}
    made = masking_utils.sdpa_mask(**{**asked, **never})
    assert made is not None
    return made


class _Tokens:
    """Which tokens are real, by a mask ``(batch, length)`` of all tokens so far, or None."""

    def __init__(self, queries: Array, keys: Array, real: Any, bidirectional: bool) -> None:
        self.bidirectional = bidirectional
        apart = bool(np.any(np.diff(queries) != 1))
        self.odd = apart or (real is not None and real.ndim != 2)  # neither is known to happen
        self._real: Array | None = None
        if real is not None and not self.odd:
            self._real = real.cpu().numpy() != 0
        self.given_keys = self._at(keys)
        shown = self.given_keys
        if not bidirectional and len(queries):  # a static cache is longer than what is in it
            shown = shown & (keys <= queries[-1])
        self.keys = _unless_all(shown)
        other = bidirectional and len(queries) != len(keys)  # queries of another sequence
        self.queries = None if other else _unless_all(self._at(queries))

    def _at(self, places: Array) -> Array:
        """Tell of places which are real; what lies beyond the mask is not."""
        if self._real is None:
            return np.ones((1, len(places)), np.bool_)
        within = places < self._real.shape[-1]
        found = np.zeros((len(self._real), len(places)), np.bool_)
        found[:, within] = self._real[:, places[within]]
        return found


def _unless_all(real: Array) -> Array | None:
    return None if real.all() else real
