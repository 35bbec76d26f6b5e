"""Watching a model: every attention call of every layer becomes part of an atlas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from headwise._numbers import whole_number
from headwise.lens.atlas import Atlas
from headwise.lens.watcher import Watcher

KEEP = 4  # texts whose views are kept


@contextmanager
def watch(
    model: Any,
    *,
    layers: Iterable[int] | None = None,
    tokenizer: Any = None,
    keep: int = KEEP,
    induction_distance: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[Atlas]:
    """Record what every head of a model does while it runs, in prefill and in generation.

    Parameters
    ----------
    model
        Of transformers, loaded with ``attn_implementation="headwise"``.
    layers
        Numbers of the layers to record; None is all.
    tokenizer
        The model's, so that pages can show the tokens' texts.
    keep
        Of how many texts views are kept for pages and pictures; all count in the numbers.
    induction_distance
        How far before each token its copy's successor stands, where texts repeat themselves: T - 1
        in T random tokens that come twice. It gives the measure ``induction_diagonal``.
    progress
        Called with the name of each attention module that was seen.

    Yields
    ------
    Atlas
        Complete when the block ends.

    Raises
    ------
    ImportError
        Where transformers or PyTorch is missing.
    ValueError
        Where the model's attention is not headwise's, or ``layers`` names none of its layers.

    Notes
    -----
    Padding is left out: numbers are those of each text alone. Queries that are generated one by one
    are added to the text they follow. Outputs have the same bits as without watching, but where a
    batch is padded: there the statistics of each text are computed beside it.

    Examples
    --------
    >>> import torch, headwise
    >>> from transformers import LlamaConfig, LlamaModel
    >>> import headwise.adapters.transformers
    >>> sizes = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, vocab_size=50)
    >>> config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    >>> config._attn_implementation = "headwise"
    >>> model = LlamaModel(config).eval()
    >>> with torch.no_grad(), headwise.lens.watch(model) as atlas:
    ...     _ = model(torch.arange(20).reshape(1, -1) % 7)
    >>> atlas
    <Atlas: LlamaModel, 2 layers × 4 heads, 1 texts>
    >>> sorted(atlas.numbers)[:4]
    ['close_by', 'confidence', 'distance', 'duplicate_token']
    """
    from headwise.adapters import transformers as adapter

    _check(model, adapter.NAME)
    atlas = Atlas(model=model_name(model))
    watcher = Watcher(
        atlas,
        adapter.name_layers(model),
        layers=layers,
        keep=whole_number("keep", keep),
        induction_distance=induction_distance,
        progress=progress or (lambda _: None),
    )
    hooks = watcher.tokens.attach(model)
    try:
        with adapter.intercept(watcher.see):
            yield atlas
        watcher.close(tokenizer)
    finally:
        for hook in hooks:
            hook.remove()


def _check(model: Any, name: str) -> None:
    config = getattr(model, "config", None)
    used = getattr(config, "_attn_implementation", None)
    parts = (
        [getattr(m, "config", None) for m in model.modules()] if hasattr(model, "modules") else []
    )
    if used != name and not any(getattr(c, "_attn_implementation", 0) == name for c in parts):
        raise ValueError(
            f"model must run on headwise, got {type(model).__name__} with "
            f"attn_implementation={used!r}: load it with "
            'from_pretrained(..., attn_implementation="headwise"), or call '
            'model.set_attn_implementation("headwise")'
        )


def model_name(model: Any) -> str:
    """Return the name a model was loaded by, or its class's."""
    path = str(getattr(model.config, "_name_or_path", "") or "")
    parts = [part for part in path.split("/") if part not in {"", ".", "model"}]
    return parts[-1] if parts else type(model).__name__
