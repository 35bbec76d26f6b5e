"""Models of Hugging Face transformers, with headwise for their attention.

Importing this module makes ``attn_implementation="headwise"`` known to transformers, from 4.56 on.
A model then computes what it computes on ``"eager"``, in inference, on the CPU; what cannot be
honoured raises. `intercept` shows the attention calls of all models that run on it.

Example
-------
>>> import torch, transformers
>>> import headwise.adapters.transformers
>>> config = transformers.LlamaConfig(
...     vocab_size=99, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
...     num_attention_heads=4, attn_implementation="headwise",
... )
>>> model = transformers.AutoModel.from_config(config).eval()
>>> with torch.no_grad():
...     model(torch.arange(9)[None]).last_hidden_state.shape
torch.Size([1, 9, 32])
"""

from __future__ import annotations

import functools
from typing import Any

from headwise.adapters._transformers_calls import AttentionCall, intercept
from headwise.adapters._transformers_layers import LayerName, check_class, name_layers

__all__ = ["NAME", "AttentionCall", "LayerName", "intercept", "name_layers", "register"]

NAME = "headwise"  # of the attention implementation
OLDEST = (4, 56)  # transformers, by whose masks and models this was checked


def register() -> None:
    """Make the attention implementation known to transformers; importing this module does.

    Raises
    ------
    ImportError
        Where transformers or PyTorch is missing or too old.
    """
    try:
        import transformers

        if tuple(int(n) for n in transformers.__version__.split(".")[:2]) < OLDEST:
            raise ImportError(f"transformers {transformers.__version__} is too old")
        from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

        from headwise.adapters._transformers_attention import attention_function
        from headwise.adapters._transformers_masks import mask_function
    except ImportError as error:
        raise ImportError(
            "headwise.adapters.transformers needs PyTorch and transformers "
            f"{'.'.join(map(str, OLDEST))} or newer: pip install 'headwise[transformers]' ({error})"
        ) from error
    AttentionInterface.register(NAME, _uncompiled(attention_function))
    AttentionMaskInterface.register(NAME, _uncompiled(mask_function))
    _have_classes_checked(PreTrainedModel)


def _uncompiled(function: Any) -> Any:
    """Have torch.compile call a function as it is, between the graphs that it makes."""
    from torch import compiler

    reason = "headwise has kernels of its own: use torch.compile(model) without fullgraph=True"
    disable: Any = compiler.disable
    return disable(function, reason=reason)


def _have_classes_checked(base: Any) -> None:
    """Have transformers ask whether a model can have headwise, where it looks at what it was given.

    Models whose attention does not use the interface would go on without a word, unchanged.
    """
    original = base.get_correct_attn_implementation
    if getattr(original, "asks_headwise", False):
        return

    @functools.wraps(original)
    def checked(self: Any, requested_attention: str | None, *args: Any, **kwargs: Any) -> Any:
        if requested_attention == NAME:
            check_class(type(self))
        return original(self, requested_attention, *args, **kwargs)

    checked.asks_headwise = True  # type: ignore[attr-defined]
    base.get_correct_attn_implementation = checked


register()
