"""Wrong solutions of the exercise, as students write them: splitting, combining, calling."""

from __future__ import annotations

ATTENTION = """
import numpy as np

def scaled_dot_product_attention(query, key, value, mask=None):
    scores = np.matmul(query, np.swapaxes(key, -1, -2)) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    scores = scores - np.max(scores, axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / np.sum(weights, axis=-1, keepdims=True)
    return np.matmul(weights, value)
"""
SPLIT = """
def split_heads(x, num_heads):
    b, s, d = x.shape
    return x.reshape(b, s, num_heads, d // num_heads).transpose(0, 2, 1, 3)
"""
CALL = """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    q, k, v = (split_heads(t, num_heads) for t in (query, key, value))
    return scaled_dot_product_attention(q, k, v, mask=mask)
"""

# The mistake's name, and a file that makes it.
HEADS = [
    (
        "heads interleaved",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    return np.stack([x[:, :, h::num_heads] for h in range(num_heads)], axis=1)
""",
    ),
    (
        "heads interleaved",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    batch, seq, d_model = x.shape
    x = x.reshape(batch, seq, d_model // num_heads, num_heads)
    return np.einsum("bsdh->bhsd", x)
""",
    ),
    (
        "heads not moved",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    batch, seq, d_model = x.shape
    d_k = d_model // num_heads
    out = np.empty((batch, seq, num_heads, d_k), dtype=x.dtype)
    for h in range(num_heads):
        out[:, :, h, :] = x[:, :, h * d_k:(h + 1) * d_k]
    return out
""",
    ),
    (
        "reshaped straight to heads",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    n, length, width = x.shape
    return x.reshape((n, num_heads, length, width // num_heads))
""",
    ),
    (
        "reshaped straight to heads",
        """
import numpy as np
def split_heads(x, num_heads):
    flat = np.ravel(x)
    shape = (x.shape[0], num_heads, x.shape[1], x.shape[2] // num_heads)
    out = np.zeros(shape, x.dtype)
    for i, number in enumerate(flat):
        out.flat[i] = number
    return out
""",
    ),
    (
        "last two axes swapped",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    b, s, d = x.shape
    return x.reshape(b, s, num_heads, d // num_heads).transpose(0, 2, 3, 1)
""",
    ),
    (
        "heads before the batch",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    return np.array(np.split(x, num_heads, axis=-1))
""",
    ),
    (
        "heads on the last axis",
        """
import numpy as np
def split_heads(x, num_heads):
    parts = np.split(x, num_heads, axis=2)
    return np.stack(parts, axis=-1)
""",
    ),
    (
        "size of a head taken for their number",
        ATTENTION + CALL + """
def split_heads(x, num_heads):
    b, s, _ = x.shape
    return x.reshape(b, s, -1, num_heads).transpose(0, 2, 1, 3)
""",
    ),
    (
        "heads not moved back",
        """
import numpy as np
def combine_heads(x):
    batch, heads, seq, d_k = x.shape
    return x.reshape(batch, seq, heads * d_k)
""",
    ),
    (
        "heads combined interleaved",
        """
import numpy as np
def combine_heads(x):
    return np.einsum("bhsd->bsdh", x).reshape(x.shape[0], x.shape[2], -1)
""",
    ),
    (
        "heads averaged",
        """
import numpy as np
def combine_heads(x):
    total = 0
    for h in range(x.shape[1]):
        total = total + x[:, h]
    return total / x.shape[1]
""",
    ),
    (
        "heads combined too early",
        ATTENTION + SPLIT + """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    out = scaled_dot_product_attention(
        split_heads(query, num_heads), split_heads(key, num_heads), split_heads(value, num_heads),
        mask)
    return np.concatenate([out[:, h] for h in range(num_heads)], axis=-1)
""",
    ),
    (
        "heads in a loop",
        ATTENTION + SPLIT + """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    q, k, v = split_heads(query, num_heads), split_heads(key, num_heads), split_heads(value, num_heads)
    heads = []
    for h in range(num_heads):
        m = mask
        if mask is not None and mask.ndim >= 3:
            m = mask[..., h if mask.shape[-3] > 1 else 0, :, :]
        heads.append(scaled_dot_product_attention(q[:, h], k[:, h], v[:, h], m))
    return np.stack(heads, 1)
""",
    ),
    (
        "mask not handed on",
        ATTENTION + SPLIT + """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    return scaled_dot_product_attention(*[split_heads(x, num_heads) for x in (query, key, value)])
""",
    ),
    (
        "query used for all three",
        ATTENTION + SPLIT + """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    x = split_heads(query, num_heads)
    return scaled_dot_product_attention(x, x, x, mask)
""",
    ),
    (
        "keys and values exchanged in the heads' call",
        ATTENTION + SPLIT + """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    query, value, key = [split_heads(x, num_heads) for x in (query, key, value)]
    return scaled_dot_product_attention(query, key, value, mask)
""",
    ),
    (
        "split after attending",
        ATTENTION + SPLIT + """
def multi_head_attention_per_head(query, key, value, num_heads, mask=None):
    if mask is not None and mask.ndim == 4:
        mask = mask[:, 0]
    whole = scaled_dot_product_attention(query, key, value, mask)
    return split_heads(whole, num_heads)
""",
    ),
]  # fmt: skip
