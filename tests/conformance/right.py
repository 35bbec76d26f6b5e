"""Right solutions of the exercise in several styles, without any special care for NaN."""

from __future__ import annotations

SPLIT = """
def split_heads(x, num_heads):
    batch_size, seq_len, d_model = x.shape
    return x.reshape(batch_size, seq_len, num_heads, d_model // num_heads).transpose(0, 2, 1, 3)

def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    query_heads = split_heads(query, num_heads)
    key_heads = split_heads(key, num_heads)
    value_heads = split_heads(value, num_heads)
    return scaled_dot_product_attention(query_heads, key_heads, value_heads, mask=mask)
"""
FOUR_LINES = (
    """
import numpy as np

def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ value
"""
    + SPLIT
)
LARGE_NEGATIVE = FOUR_LINES.replace("-np.inf", "-1e9")
ADDED = FOUR_LINES.replace("np.where(mask, scores, -np.inf)", "scores + np.where(mask, 0, -1e9)")
ASSIGNED = """
import numpy as np

def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=axis, keepdims=True)

def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.shape[-1]
    scores = np.matmul(query, np.moveaxis(key, -1, -2)) / d_k ** 0.5
    if mask is not None:
        mask = np.broadcast_to(mask, scores.shape)
        scores[np.logical_not(mask)] = float("-inf")
    return np.matmul(softmax(scores), value)

def split_heads(x, num_heads):
    return np.stack(np.split(x, num_heads, axis=-1), axis=1)

def combine_heads(x):
    return np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1)

def multi_head_attention_per_head(q, k, v, h, mask=None):
    return scaled_dot_product_attention(split_heads(q, h), split_heads(k, h), split_heads(v, h), mask)
"""
EINSUM = """
import numpy as np

def split_heads(x, num_heads):
    b, s, d = x.shape
    return np.einsum("bshd->bhsd", x.reshape(b, s, num_heads, d // num_heads))

def combine_heads(x):
    b, h, s, d = x.shape
    return np.einsum("bhsd->bshd", x).reshape(b, s, h * d)

def scaled_dot_product_attention(query, key, value, mask=None):
    s = np.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        s = np.where(mask, s, np.finfo(s.dtype).min)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("...qk,...kd->...qd", p / p.sum(-1, keepdims=True), value)

def multi_head_attention_per_head(query, key, value, num_heads, attn_mask=None):
    heads = [split_heads(x, num_heads) for x in (query, key, value)]
    return scaled_dot_product_attention(*heads, attn_mask)
"""
NO_MASK = """
import numpy as np

def scaled_dot_product_attention(query, key, value):
    s = query @ key.swapaxes(-1, -2) / np.sqrt(key.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ value
"""
TORCH = """
import torch

def split_heads(x, num_heads):
    b, s, d = x.shape
    return x.view(b, s, num_heads, d // num_heads).transpose(1, 2)

def scaled_dot_product_attention(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1) @ value

def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    heads = (split_heads(x, num_heads) for x in (query, key, value))
    return scaled_dot_product_attention(*heads, mask=mask)
"""
RIGHT = {
    "four lines": FOUR_LINES,
    "-1e9": LARGE_NEGATIVE,
    "-1e9 added": ADDED,
    "assigned": ASSIGNED,
    "einsum": EINSUM,
    "without a mask": NO_MASK,
}
