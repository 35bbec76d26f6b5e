"""Wrong attention, as students write it: scores, softmax, masks, what is returned."""

from __future__ import annotations


def softmax_attention(**pieces: str) -> str:
    """Return a file in the style of a helper function ``softmax``, with some lines replaced."""
    parts = {
        "scores": "q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])",
        "mask": "s = np.where(mask, s, -np.inf)",
        "softmax": "e = np.exp(s - s.max(axis=-1, keepdims=True)); return e / e.sum(-1, keepdims=True)",
        "output": "return softmax(s) @ v",
        **pieces,
    }
    return f"""
import math
import numpy as np

def softmax(s):
    {parts["softmax"]}

def scaled_dot_product_attention(q, k, v, mask=None):
    s = {parts["scores"]}
    if mask is not None:
        {parts["mask"]}
    {parts["output"]}
"""


def torch_like(change: str, to: str) -> str:
    """Return a file in the style of a PyTorch module ported to NumPy, with a line replaced."""
    source = """
import numpy as np

def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.shape[-1]
    key_t = np.transpose(key, (*range(key.ndim - 2), key.ndim - 1, key.ndim - 2))
    attn = np.matmul(query, key_t) / float(d_k) ** 0.5
    if mask is not None:
        attn = np.where(mask == 0, -1e9, attn)
    attn = attn - attn.max(-1, keepdims=True)
    p_attn = np.exp(attn) / np.exp(attn).sum(-1, keepdims=True)
    return np.matmul(p_attn, value)
"""
    assert change in source
    return source.replace(change, to)


LOOPS = """
import math
import numpy as np

def one(q, k, v, visible):
    out = np.zeros((len(q), v.shape[-1]), dtype=np.result_type(q, v))
    for i in range(len(q)):
        row = []
        for j in range(len(k)):
            s = sum(float(q[i, d]) * float(k[j, d]) for d in range(q.shape[-1]))
            row.append(s / math.sqrt(q.shape[-1]))
        keys = [j for j in range(len(k)) if visible[i, j]]
        if not keys:
            continue
        top = max(row[j] for j in keys)
        total = sum(math.exp(row[j] - top) for j in keys)
        for j in keys:
            out[i] += math.exp(row[j] - top) / total * v[j]
    return out

def scaled_dot_product_attention(query, key, value, mask=None):
    lead = query.shape[:-2]
    shape = lead + (query.shape[-2], key.shape[-2])
    mask = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    out = np.zeros(query.shape[:-1] + value.shape[-1:], dtype=query.dtype)
    for at in np.ndindex(*lead):
        out[at] = one(query[at], key[at], value[at], mask[at])
    return out
"""

EINSUM = """
import numpy as np

def scaled_dot_product_attention(query, key, value, mask=None):
    scores = np.einsum("...id,...jd->...ij", query, key) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    scores = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores)
    weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.einsum("...ij,...jd->...id", weights, value)
"""


def loops(change: str, to: str) -> str:
    assert change in LOOPS
    return LOOPS.replace(change, to)


def einsum(change: str, to: str) -> str:
    assert change in EINSUM
    return EINSUM.replace(change, to)


E_SUM = "e.sum(-1, keepdims=True)"
# The mistake's name, and a file that makes it.
ATTENTION = [
    ("not scaled", loops("s / math.sqrt(q.shape[-1])", "s")),
    ("not scaled", einsum(" / query.shape[-1] ** 0.5", "")),
    ("scaled by head_dim", softmax_attention(scores="q @ k.swapaxes(-2, -1) / q.shape[-1]")),
    ("scaled by head_dim", loops("s / math.sqrt(q.shape[-1])", "s / len(q[i])")),
    (
        "scaled by d_model",
        torch_like("float(d_k) ** 0.5", "np.sqrt(d_k * (query.shape[-3] if query.ndim > 2 else 1))"),
    ),
    ("multiplied by the root", torch_like("/ float(d_k)", "* float(d_k)")),
    ("scaled by the number of keys", einsum("query.shape[-1] ** 0.5", "np.sqrt(key.shape[-2])")),
    ("softmax over the queries", torch_like("attn - attn.max(-1, keepdims=True)\n    p_attn = "
     "np.exp(attn) / np.exp(attn).sum(-1, keepdims=True)", "attn - attn.max(-2, keepdims=True)\n"
     "    p_attn = np.exp(attn) / np.exp(attn).sum(-2, keepdims=True)")),
    ("softmax over the heads",
     softmax_attention(softmax="e = np.exp(s - s.max(axis=-3, keepdims=True)); "
                               "return e / e.sum(-3, keepdims=True)")),
    ("maximum not subtracted", softmax_attention(softmax=f"e = np.exp(s); return e / {E_SUM}")),
    ("one maximum for all rows", softmax_attention(softmax=f"e = np.exp(s - np.max(s)); return e / {E_SUM}")),
    ("softmax not normalised", einsum("    weights = weights / weights.sum(axis=-1, keepdims=True)\n", "")),
    ("no softmax", softmax_attention(output="return s @ v")),
    ("key reshaped for transposed",
     softmax_attention(scores="q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2]) / math.sqrt(q.shape[-1])")),
    ("query and key exchanged", softmax_attention(scores="k @ q.swapaxes(-2, -1) / math.sqrt(q.shape[-1])")),
    ("key and value exchanged", einsum("(query, key, value, mask=None)", "(query, value, key, mask=None)")),
    ("keys used as values", loops("/ total * v[j]", "/ total * k[j]")),
    ("changes its inputs", einsum("    scores = np.einsum(\"...id,...jd->...ij\", query, key) / query.shape[-1] ** 0.5",
     "    query /= query.dtype.type(query.shape[-1] ** 0.5)\n"
     "    scores = np.einsum(\"...id,...jd->...ij\", query, key)")),
    ("takes four dimensions only", einsum("...id,...jd->...ij", "bhid,bhjd->bhij")),
    ("lower precision", softmax_attention(scores="q.astype('f4') @ k.astype('f4').swapaxes(-2, -1) / "
     "np.float32(math.sqrt(q.shape[-1]))", output="return (softmax(s) @ v.astype('f4')).astype(q.dtype)")),
    ("result in float64", loops("dtype=query.dtype", "dtype=float")),
    ("result is a list", loops("    return out\n", "    return out.tolist()\n").replace(
        "            continue\n", "            continue\n").replace(
        "    return out.tolist()\n\ndef", "    return out\n\ndef")),
    ("output and weights returned", softmax_attention(output="w = softmax(s); return w @ v, w")),
    ("nothing returned", softmax_attention(output="result = softmax(s) @ v")),
    ("result combined", einsum("    return np.einsum(\"...ij,...jd->...id\", weights, value)",
     "    out = np.einsum(\"...ij,...jd->...id\", weights, value)\n"
     "    if out.ndim < 3:\n        return out\n"
     "    out = np.moveaxis(out, -3, -2)\n    return out.reshape(*out.shape[:-2], -1)")),
    ("mask ignored", softmax_attention(mask="pass")),
    ("mask upside down", torch_like("mask == 0", "mask")),
    ("mask upside down", loops("else np.broadcast_to(mask, shape)", "else np.broadcast_to(mask, shape) == 0")),
    ("mask transposed", softmax_attention(mask="s = np.where(np.swapaxes(mask, -1, -2), s, -np.inf)")),
    ("masked after the softmax", softmax_attention(mask="return (softmax(s) * mask) @ v")),
    ("masked after the softmax and normalised again", softmax_attention(
        mask="w = softmax(s) * mask; return (w / w.sum(-1, keepdims=True)) @ v")),
    ("hidden scores set to 0", torch_like("-1e9", "0.0")),
    ("mask multiplied into the scores", softmax_attention(mask="s = s * mask")),
    ("boolean mask added", einsum("np.where(mask, scores, -np.inf)", "scores + mask")),
    ("hidden scores set to -1e9", torch_like("mask == 0", "mask == 0")),
    ("hidden scores set to -1e4", torch_like("-1e9", "-1e4")),
    ("hidden scores lowered by -1e9", softmax_attention(mask="s = s + (1.0 - mask) * -1e9")),
    ("rows without keys are NaN, no keys raise", EINSUM),
    ("hidden values leak", EINSUM),
    ("NaN turned to 0", einsum("    return np.einsum(\"...ij,...jd->...id\", weights, value)",
     "    return np.nan_to_num(np.einsum(\"...ij,...jd->...id\", weights, value))")),
]  # fmt: skip
