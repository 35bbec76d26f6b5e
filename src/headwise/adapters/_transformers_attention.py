"""The attention function: from what a model's module passes to one call of headwise, and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from headwise._arrays import Array
from headwise._mask_kinds import Dense, Mask
from headwise.adapters._transformers_calls import AttentionCall, compute, intercepted
from headwise.adapters._transformers_layers import is_cross_attention
from headwise.adapters._transformers_masks import MaskTensor, Visible, positional
from headwise.adapters._transformers_readers import EVERYTHING, padding
from headwise.adapters._transformers_refusals import (
    refuse_dropout,
    refuse_gradients,
    refuse_head_mask,
    refuse_options,
    refuse_places,
    refuse_tracing,
    refuse_what_is_no_mask,
)
from headwise.adapters._transformers_tensors import Deferred, plain


def attention_function(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    *,
    dropout: float = 0.0,
    scaling: Any = None,
    softcap: float | None = None,
    s_aux: Any = None,
    position_bias: Any = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[Any, Any]:
    """Compute a module's attention, as `transformers.AttentionInterface` asks for it.

    Parameters
    ----------
    module
        The module that asks.
    query, key, value
        ``(batch, num_heads, query_len, head_dim)``, ``(batch, num_kv_heads, kv_len, head_dim)`` and
        ``(batch, num_kv_heads, kv_len, value_dim)``, on the CPU.
    attention_mask
        What the mask function made, or a tensor that broadcasts to ``(batch, num_heads, query_len,
        kv_len)``: booleans, True = may attend, or floats to add. None: all are visible.
    dropout, scaling, softcap, s_aux, position_bias, is_causal
        As models pass them: ``s_aux`` are the logits of sinks.
    **others
        What changes nothing on the CPU in inference; the rest is refused.

    Returns
    -------
    tuple
        The output ``(batch, query_len, num_heads, value_dim)``, and the weights ``(batch,
        num_heads, query_len, kv_len)``, computed where somebody asks for them.
    """
    refuse_tracing(query, key, value, attention_mask)
    refuse_options(module, others, s_aux)
    refuse_dropout(module, dropout)
    tensors = {"query": query, "key": key, "value": value}
    refuse_places(tensors)
    refuse_gradients({**tensors, "position_bias": position_bias, "s_aux": s_aux})
    seen = _seen(module, attention_mask, query, key, is_causal)
    call = AttentionCall(
        module,
        plain(query),
        plain(key),
        plain(value),
        mask=seen.mask,
        bias=_sum(seen.bias, plain(position_bias)),
        scale=_scale(module, scaling, value),
        softcap=softcap,
        sink_logits=plain(s_aux),
        query_offset=seen.query_offset,
        first_key=seen.first_key,
        real_queries=seen.real_queries,
        real_keys=seen.real_keys,
        weights_wanted=_weights_wanted(others),
    )
    output, weights = compute(call)
    if weights is None:
        weights = _weights(call) if call.weights_wanted else _weights_later(call)
    return _back(call, output).to(value.dtype), weights


class _Seen(NamedTuple):
    """What a mask says."""

    mask: Mask | None = None
    bias: torch.Tensor | None = None
    query_offset: int | None = None
    real_queries: Array | None = None
    real_keys: Array | None = None
    first_key: int = 0


def _seen(module: Any, mask: Any, query: Any, key: Any, is_causal: bool | None) -> _Seen:
    lengths = (query.shape[-2], key.shape[-2])
    if mask is None:
        _refuse_silent_causality(module, is_causal, lengths[0])
        same = lengths[0] == lengths[1] and not is_cross_attention(module)
        return _Seen(query_offset=0 if same else None)
    if isinstance(mask, MaskTensor) and mask.intact and mask.shape[-2:] == lengths:
        return _structured(module, mask.visible)
    refuse_gradients({"attention_mask": mask})
    mask = plain(mask)[..., : lengths[1]]  # some are made longer
    refuse_what_is_no_mask(mask, (max(len(query), len(key)), query.shape[1], *lengths))
    return _dense(module, mask, lengths)


def _structured(module: Any, visible: Visible) -> _Seen:
    queries, offset = visible.real_queries, visible.query_offset
    mask = None if visible.mask == EVERYTHING else visible.mask
    if visible.bidirectional and is_cross_attention(module):
        queries, offset = None, offset if mask is not None and positional(mask) else None
    return _Seen(mask, None, offset, queries, visible.real_keys, visible.first_key)


def _dense(module: Any, mask: torch.Tensor, lengths: tuple[int, int]) -> _Seen:
    """Read a tensor as a mask: of booleans, of 0 and the most negative number, or floats to add."""
    shown, bias = mask, None
    if mask.dtype != torch.bool:
        shown = mask > torch.finfo(mask.dtype).min
        if bool((shown & (mask != 0)).any()):
            refuse_head_mask(mask, lengths[1])
            bias = mask
    queries, keys = _tokens(module, shown, lengths) if intercepted() else (None, None)
    if bias is not None or bool(shown.all()):
        return _Seen(None, bias, None, queries, keys)
    if shown.ndim == 4 and shown.shape[1:] == (1, 1, lengths[1]):
        return _Seen(padding(shown[:, 0, 0].numpy()), None, None, queries, keys)
    return _Seen(Dense(shown.numpy()), None, None, queries, keys)


def _tokens(
    module: Any, shown: torch.Tensor, lengths: tuple[int, int]
) -> tuple[Array | None, Array | None]:
    """Take for real what is seen and what sees something, as far as a dense mask tells."""
    while shown.ndim < 4:
        shown = shown[None]
    shown = shown.any(dim=1).expand(-1, *lengths)  # by any head
    queries, keys = shown.any(dim=2), shown.any(dim=1)
    if lengths[0] == lengths[1] and not is_cross_attention(module):
        queries = queries & keys
    return tuple(None if bool(x.all()) else x.numpy() for x in (queries, keys))  # type: ignore[return-value]


def _refuse_silent_causality(module: Any, is_causal: bool | None, query_len: int) -> None:
    causal = getattr(module, "is_causal", False) if is_causal is None else is_causal
    if causal and query_len > 1:
        raise ValueError(
            f"attention_mask is None and is_causal says that {type(module).__name__} is causal: "
            '"eager" would let every query see every key, "sdpa" would not. Pass a mask, or '
            "is_causal=False"
        )


def _sum(one: torch.Tensor | None, other: torch.Tensor | None) -> torch.Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _scale(module: Any, scaling: Any, value: Any) -> float | None:
    """Return the factor of the scores; transformers 4 does not pass what GPT-2 makes of it."""
    if scaling is not None:
        return float(scaling)
    plainly = getattr(module, "scale_attn_weights", True)
    by_layer = getattr(module, "scale_attn_by_inverse_layer_idx", False)
    if plainly and not by_layer:
        return None
    scale = float(value.shape[-1]) ** -0.5 if plainly else 1.0
    return scale / (module.layer_idx + 1) if by_layer else scale


def _weights_wanted(options: dict[str, Any]) -> bool:
    """Tell whether a model was asked for weights: by an option, or by those who collect them."""
    collected = () if _collector is None else _collector.get() or ()
    return bool(options.get("output_attentions")) or any("attentions" in name for name in collected)


def _find_collector() -> Any:
    try:
        from transformers.utils import output_capturing
    except ImportError:  # before 5.0
        return None
    return getattr(output_capturing, "_active_collector", None)


_collector = _find_collector()


def _weights(call: AttentionCall) -> torch.Tensor:
    weights: torch.Tensor = call.observe(()).weights()
    return weights.to(call.query.dtype)


def _weights_later(call: AttentionCall) -> Deferred:
    """Return weights that are computed if somebody looks: models drop them, or collect them."""
    versions = _versions(call)

    def make() -> torch.Tensor:
        if versions is None or versions != _versions(call):
            raise RuntimeError(
                "the weights of this attention call are gone: its keys may have been overwritten "
                "since. Ask for them with output_attentions=True, under torch.no_grad() and not "
                "torch.inference_mode(), and without a static cache"
            )
        return _weights(call)

    return Deferred(call.scores_shape, call.query.dtype, make=make)


def _versions(call: AttentionCall) -> tuple[int, ...] | None:
    """Return how often the operands were written to; None where PyTorch does not count it."""
    if any(x.is_inference() for x in (call.query, call.key)):
        return None
    return tuple(x._version for x in (call.query, call.key))


def _back(call: AttentionCall, output: Any) -> Any:
    """Bring an output into the layout of transformers: ``(batch, query_len, num_heads, ...)``."""
    expected = (*call.scores_shape[:3], call.value.shape[-1])
    if tuple(np.shape(output)) != expected:
        raise ValueError(
            "the function given to intercept must return an output (batch, num_heads, query_len, "
            f"value_dim) = {expected}, got {tuple(np.shape(output))}"
        )
    return output.transpose(1, 2).contiguous()
