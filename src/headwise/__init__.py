"""headwise: exact multi-head attention on the CPU, with every head in view.

As fast as fused, as visible as eager. Start with `scaled_dot_product_attention` and `observe`;
`split_heads` and `multi_head_attention_per_head` split a model's dimension into heads and keep them
apart; `MultiHeadAttention` adds the projections. `headwise.reference` is all of it in plain NumPy.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from headwise import _threadpoolctl, biases, masks, observers, reference, statistics
from headwise._threads import get_num_threads, set_num_threads
from headwise.attention import scaled_dot_product_attention
from headwise.biases import alibi, alibi_slopes, relative
from headwise.cache import KVCache
from headwise.heads import (
    combine_heads,
    multi_head_attention,
    multi_head_attention_per_head,
    split_heads,
)
from headwise.layer import MultiHeadAttention
from headwise.masks import causal, documents, lengths, prefix, window
from headwise.merging import merge
from headwise.observation import Observation, observe
from headwise.rotary import rotary_caches, rotary_embedding

__version__ = "0.1.0"

__all__ = [
    "KVCache",
    "MultiHeadAttention",
    "Observation",
    "alibi",
    "alibi_slopes",
    "biases",
    "causal",
    "combine_heads",
    "documents",
    "get_num_threads",
    "lengths",
    "masks",
    "merge",
    "multi_head_attention",
    "multi_head_attention_per_head",
    "observe",
    "observers",
    "prefix",
    "reference",
    "relative",
    "rotary_caches",
    "rotary_embedding",
    "scaled_dot_product_attention",
    "set_num_threads",
    "split_heads",
    "statistics",
    "window",
]

_threadpoolctl.register()


def __getattr__(name: str) -> _Any:
    """Import what `import headwise` leaves for later, once it is asked for."""
    if name in {"adapters", "conformance", "lens"}:
        return _import_module(f"headwise.{name}")
    raise AttributeError(f"module 'headwise' has no attribute {name!r}")
