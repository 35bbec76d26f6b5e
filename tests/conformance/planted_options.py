"""Wrong attention with options, as an engineer's own function has them."""

from __future__ import annotations

RIGHT = """
import numpy as np

def attend(query, key, value, mask=None, *, causal=False, query_offset=None, window=None,
           bias=None, softcap=None, sink_logits=None, scale=None, kv_lengths=None):
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ValueError("shapes do not fit")
    if any(x.dtype.kind == "c" for x in (query, key, value)):
        raise TypeError("complex numbers")
    if query.dtype.kind in "iu":
        query = query.astype(np.float64)
    rows, keys = query.shape[-2], key.shape[-2]
    q, k, v = (x.astype(np.float64) for x in (query, key, value))
    if q.ndim == k.ndim == 4 and q.shape[1] != k.shape[1]:
        if q.shape[1] % k.shape[1]:
            raise ValueError("heads do not divide")
        group = q.shape[1] // k.shape[1]
        k, v = [np.repeat(x, group, axis=1) for x in (k, v)]
    s = np.einsum("...id,...jd->...ij", q, k)
    s = s * (scale if scale is not None else 1.0 / np.sqrt(max(q.shape[-1], 1)))
    if softcap is not None:
        if softcap <= 0:
            raise ValueError("softcap must be positive")
        s = softcap * np.tanh(s / softcap)
    see = np.ones((rows, keys), dtype=bool)
    if causal or window is not None:
        if query_offset is None:
            if rows != keys:
                raise ValueError("say query_offset")
            query_offset = 0
        elif isinstance(query_offset, str):
            query_offset = {"upper_left": 0, "lower_right": keys - rows}[query_offset]
        start = np.asarray(query_offset)
        start = start.reshape(-1, 1, 1, 1) if start.ndim else start
        dist = np.arange(keys)[None, :] - (np.arange(rows)[:, None] + start)
        if causal:
            see = see & (dist <= 0)
        if window is not None:
            left, right = window
            if left is not None:
                see = see & (dist >= -left)
            if right is not None:
                see = see & (dist <= right)
    if kv_lengths is not None:
        see = see & (np.arange(keys) < np.asarray(kv_lengths).reshape(-1, 1, 1, 1))
    if mask is not None:
        m = np.asarray(mask)
        if m.dtype.kind == "f":
            if np.isin(m, (0, 1)).all() and m.min() != m.max():
                raise ValueError("a float mask of 0 and 1")
            bias = m if bias is None else bias + m
        else:
            if not np.isin(m, (0, 1)).all():
                raise ValueError("not 0 and 1")
            see = see & (m != 0)
    if bias is not None:
        b = np.asarray(bias).astype(np.float64)
        s, see = s + b, see & (b > -np.inf)
    see = np.broadcast_to(see, s.shape)
    s = np.where(see, s, -np.inf)
    sink = np.full(1, -np.inf) if sink_logits is None else np.asarray(sink_logits, np.float64)
    sink = sink.reshape(-1, 1, 1) if s.ndim > 2 else sink
    top = np.maximum(s.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    top = np.where(top == -np.inf, 0, top)
    e = np.exp(s - top)
    z = e.sum(axis=-1, keepdims=True) + np.exp(sink - top)
    w = e / np.where(z == 0, 1, z)
    ok = np.isfinite(v)
    out = w @ np.where(ok, v, 0)
    if not ok.all():
        for j in range(keys):
            bad = np.where(ok, 0, v)[..., j, None, :]
            out = out + np.where(see[..., j, None], np.where(bad == 0, 0, w[..., j, None] * bad), 0)
    return out.astype(query.dtype.newbyteorder("="))
"""


def change(words: str, to: str) -> str:
    """Return the right function with some words replaced."""
    assert words in RIGHT, words
    return RIGHT.replace(words, to)


CORNER = """            if rows != keys:
                raise ValueError("say query_offset")
            query_offset = 0
"""
CAP = "        s = softcap * np.tanh(s / softcap)\n"
HIDE = "    s = np.where(see, s, -np.inf)\n"
TOP = "    top = np.maximum(s.max(axis=-1, keepdims=True, initial=-np.inf), sink)\n"
OWN_TOP = "    top = s.max(axis=-1, keepdims=True, initial=-np.inf)\n"
SUM = "+ np.exp(sink - top)"
# The mistake's name, and a file that makes it.
OPTIONS = [
    ("causal ignored", change("if causal:", "if False:")),
    ("causal without the own key", change("(dist <= 0)", "(dist < 0)")),
    ("causal with the next key", change("(dist <= 0)", "(dist < 2)")),
    ("causal turned around", change("(dist <= 0)", "(dist >= 0)")),
    ("causal from the upper left corner, unasked", change(CORNER, "            query_offset = 0\n")),
    ("causal from the lower right corner, unasked",
     change(CORNER, "            query_offset = keys - rows\n")),
    ("always the upper left corner", change("start = np.asarray(query_offset)", "start = np.asarray(0)")),
    ("always the lower right corner",
     change("start = np.asarray(query_offset)", "start = np.asarray(keys - rows)")),
    ("causal aligned to the other corner",
     change('{"upper_left": 0, "lower_right": keys - rows}', '{"lower_right": 0, "upper_left": keys - rows}')),
    ("offset with the wrong sign", change(":, None] + start)", ":, None] - start)")),
    ("a mask takes the place of causal", change("see = see & (m != 0)", "see = m != 0")),
    ("mask and causal joined by or", change("see = see & (m != 0)",
     "see = (see | (m != 0)) if causal or window is not None or kv_lengths is not None else m != 0")),
    ("window without its last key",
     change("(dist >= -left)", "(dist > -left)").replace("(dist <= right)", "(dist < right)")),
    ("window counts the own key", change("            left, right = window\n",
     "            left, right = [n and n - 1 for n in window]\n")),
    ("window ignored", change("if window is not None:\n            left", "if None:\n            left")),
    ("window's ends exchanged", change("left, right = window", "right, left = window")),
    ("grouped heads interleaved",
     change("np.repeat(x, group, axis=1)", "np.tile(x, (1, group, 1, 1))")),
    ("first key/value head for all", change("np.repeat(x, group, axis=1)", "x[:, [0] * q.shape[1]]")),
    ("softcap after the bias", change(CAP, "        pass\n").replace(
        "see = np.broadcast_to(see, s.shape)",
        "if softcap is not None:\n        s = softcap * np.tanh(s / softcap)\n"
        "    see = np.broadcast_to(see, s.shape)").replace("see & (b > -np.inf)", "see")),
    ("softcap after the mask", change(CAP, "        pass\n").replace(
        HIDE, HIDE + "    if softcap is not None:\n        s = softcap * np.tanh(s / softcap)\n")),
    ("softcap without its factor", change("softcap * np.tanh(s / softcap)", "np.tanh(s / softcap)")),
    ("softcap by clipping", change("softcap * np.tanh(s / softcap)", "s.clip(-softcap, softcap)")),
    ("sink ignored", change(SUM, "")),
    ("sink ignored", change(TOP, "    s = s + np.where(sink > -np.inf, sink, 0)\n" + OWN_TOP)
     .replace(SUM, "")),
    ("sink not shifted", change(SUM, "+ np.exp(sink)").replace(TOP, OWN_TOP)),
    ("lengths ignored", change("if kv_lengths is not None:", "if False:")),
    ("lengths too large by one", change("np.arange(keys) < np", "np.arange(keys) <= np")),
    ("float mask read as boolean", change('if m.dtype.kind == "f":', "if False:").replace(
        "            if not np.isin(m, (0, 1)).all():\n                raise ValueError(\"not 0 and 1\")\n", "")),
    ("scores kept in 16 bits", change("(x.astype(np.float64) for", "(x for")),
    ("-inf of a bias left out", change("s, see = s + b, see & (b > -np.inf)", "s = s + np.where(b > -np.inf, b, 0)")),
]  # fmt: skip
