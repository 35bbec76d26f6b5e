"""Models of Hugging Face transformers, with headwise for their attention.

Importing this module makes ``attn_implementation="headwise"`` known to transformers, 4.5x and 5::

    import headwise.adapters.transformers
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="headwise")
"""

from __future__ import annotations

import functools
from typing import Any

from headwise.adapters._transformers_calls import AttentionCall, intercept
from headwise.adapters._transformers_layers import LayerName, check_class, name_layers

__all__ = ["NAME", "AttentionCall", "LayerName", "intercept", "name_layers", "register"]

NAME = "headwise"  # of the attention implementation


def register() -> None:
    """Make the attention implementation known to transformers; importing this module does.

    Raises
    ------
    ImportError
        Where transformers or PyTorch is missing or too old.
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

        from headwise.adapters._transformers_attention import attention_function
        from headwise.adapters._transformers_masks import mask_function
    except ImportError as error:
        raise ImportError(
            "headwise.adapters.transformers needs PyTorch and transformers 4.5x or 5, with its "
            f"attention interface ({error}): pip install 'headwise[transformers]'"
        ) from error
    AttentionInterface.register(NAME, attention_function)
    AttentionMaskInterface.register(NAME, mask_function)
    _have_classes_checked(PreTrainedModel)


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
