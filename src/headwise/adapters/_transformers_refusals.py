"""What cannot be honoured is refused, with a sentence that says what came and what to do."""

from __future__ import annotations

from typing import Any

import torch

from headwise._shapes import broadcasts

INSTEAD = 'or have the model compute attention itself: model.set_attn_implementation("eager")'


def refuse_tracing(*tensors: Any) -> None:
    """Refuse to be recorded: kernels are no operations of PyTorch's, and a record would be wrong.

    Raises
    ------
    RuntimeError
        Within torch.export, torch.jit.trace and torch.fx.
    """
    recorded = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    if recorded or any(isinstance(x, torch.fx.Proxy) for x in tensors):
        raise RuntimeError(
            "headwise computes attention with kernels of its own, which torch.export, "
            "torch.jit.trace and torch.fx cannot record: call the model as it is, " + INSTEAD
        )


HARMLESS = {
    # what a model is to return
    "output_attentions", "output_hidden_states", "output_router_logits", "return_dict",
    "logits_to_keep",
    # what queries, keys and masks were made of, before they came here
    "use_cache", "cache_position", "position_ids", "sliding_window",
    # what holds in training, or on other devices
    "num_items_in_batch", "deterministic",
}  # fmt: skip

_PACKED = {"cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k", "seq_idx"}


def refuse_options(module: Any, options: dict[str, Any], sinks: Any) -> None:
    """Refuse what a module passes that could change the result and is not known here.

    Raises
    ------
    ValueError
        Naming it.
    """
    name = type(module).__name__
    given = {key for key, x in options.items() if x is not None and x is not False}
    if "head_mask" in given:
        raise ValueError(
            "head_mask was given, and headwise does not weigh heads down: leave it out, " + INSTEAD
        )
    if given & _PACKED:
        raise ValueError(
            f"{', '.join(sorted(given & _PACKED))} came: headwise is told of packed sequences by "
            "position_ids that begin anew with each, without an attention_mask and with "
            "use_cache=False"
        )
    if unknown := sorted(given - HARMLESS):
        raise ValueError(
            f"{name} passes {', '.join(unknown)} to its attention, which headwise does not know "
            "and will not ignore: leave it out, " + INSTEAD
        )
    if sinks is None and getattr(module, "sinks", None) is not None:
        raise ValueError(f"{name} has sinks and does not pass them on as s_aux: " + INSTEAD)


def refuse_dropout(module: Any, dropout: float) -> None:
    """Refuse dropout, which eager attention applies in training alone."""
    if dropout and module.training:
        raise ValueError(
            f"{type(module).__name__} is in training and asks for dropout {dropout}, and headwise "
            "computes inference only: call model.eval(), " + INSTEAD
        )


def refuse_gradients(tensors: dict[str, Any]) -> None:
    """Refuse to be part of a graph of gradients."""
    if not torch.is_grad_enabled():
        return
    for name, x in tensors.items():
        if getattr(x, "requires_grad", False):
            raise ValueError(
                f"{name} requires a gradient, and headwise computes none: call the model under "
                "torch.no_grad() (or torch.inference_mode()), after model.eval(); to train it have "
                'it compute attention itself: model.set_attn_implementation("sdpa")'
            )


def refuse_places(tensors: dict[str, Any]) -> None:
    """Refuse what does not lie in host memory, or not as ``(batch, heads, length, dim)``."""
    for name, x in tensors.items():
        if x.device.type != "cpu":
            raise ValueError(
                f"{name} lies on {x.device}, and headwise computes on the CPU: move the model with "
                "model.to('cpu'), " + INSTEAD
            )
        if x.ndim != 4:
            raise ValueError(
                f"{name} must have the dimensions (batch, heads, length, dim), got shape "
                f"{tuple(x.shape)}"
            )


def refuse_head_mask(mask: torch.Tensor, kv_len: int) -> None:
    """Refuse floats that are the same for all keys: added to scores they change nothing."""
    if mask.shape[-1] == 1 < kv_len:
        raise ValueError(
            f"attention_mask has shape {tuple(mask.shape)}, the same number for every key, as a "
            "head_mask has, and headwise does not weigh heads down: leave it out, " + INSTEAD
        )


def refuse_what_is_no_mask(mask: torch.Tensor, scores: tuple[int, ...]) -> None:
    """Refuse a tensor that cannot be the mask of these queries and keys.

    Raises
    ------
    TypeError
        For whole numbers, which were meant for the mask function.
    ValueError
        Where the shape does not fit.
    """
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(
            f"attention_mask is a tensor of {mask.dtype} where booleans (True = may attend) or "
            "floats to add are expected: pass attention_mask.bool()[:, None, None, :] if it tells "
            "of each key whether it is a token"
        )
    if not broadcasts(tuple(mask.shape), scores):
        raise ValueError(
            "attention_mask must broadcast to (batch, num_heads, query_len, kv_len) = "
            f"{scores}, got shape {tuple(mask.shape)}"
        )
