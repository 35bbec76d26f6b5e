"""The page: one HTML file with everything in it, which makes no request of any kind."""

from __future__ import annotations

import base64
import json
import zlib
from importlib import resources
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

import headwise
from headwise._arrays import Array
from headwise.lens.measures import MEASURES
from headwise.lens.profile import HeadMap, Profile, block_means

_UNITS = {"weight": "weight, 0 to 1", "share": "share, 0 to 1", "value": "in the values' units"}


def render_page(profile: Profile) -> str:
    """Return the page's HTML."""
    folder = resources.files("headwise.lens") / "templates"
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        title=profile.recording.model or profile.recording.source or "Attention heads",
        facts=facts(profile),
        grid_caption=_grid_caption(profile),
        version=headwise.__version__,
        data=_script_json(page_data(profile)),
        style=Markup((folder / "page.css").read_text(encoding="utf-8")),
        script=Markup((folder / "page.js").read_text(encoding="utf-8")),
    )


def facts(profile: Profile) -> list[str]:
    """Return what was looked at, in a few words each."""
    r = profile.recording
    length = (
        f"{r.kv_len:,} tokens" if r.query_len == r.kv_len else f"{r.query_len:,} × {r.kv_len:,}"
    )
    heads = f"{len(r.layers)} layers × {r.num_heads} heads"
    if r.num_kv_heads != r.num_heads:
        heads += f" over {r.num_kv_heads} key/value heads"
    seen = "causal" if r.causal else "every key visible" if r.mask is None else "masked"
    return [length, heads, seen, "float32" if _single(profile) else "float64"]


def _single(profile: Profile) -> bool:
    return all(layer.query.dtype.itemsize == 4 for layer in profile.recording.layers.values())


def _grid_caption(profile: Profile) -> str:
    text = "Rows are layers, columns are heads, both counted from 0."
    if profile.empty_rows:
        text += f" {profile.empty_rows:,} queries see no key and count in no mean."
    return text


def _script_json(data: dict[str, Any]) -> Markup:
    """Serialise for a script element: nothing in a text can end it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, escape)
    return Markup(text)


def page_data(profile: Profile) -> dict[str, Any]:
    """Return what the page's script needs, as plain lists and texts."""
    recording, maps = profile.recording, list(profile.maps.values())
    _, rows, columns = maps[0].weights.shape
    return {
        "layers": profile.layers,
        "num_heads": recording.num_heads,
        "query_len": recording.query_len,
        "kv_len": recording.kv_len,
        "tokens": recording.tokens,
        "rows": rows,
        "columns": columns,
        "block": maps[0].block,
        "measures": [_measure(profile, name) for name in profile.numbers],
        "kinds": _kinds(profile),
        "maps": [_map(head_map) for head_map in maps],
    }


def _measure(profile: Profile, name: str) -> dict[str, Any]:
    m = MEASURES[name]
    return {
        "name": name,
        "formula": m.formula,
        "meaning": m.meaning,
        "top": profile.top(name),
        "unit_text": _UNITS.get(m.unit, m.unit),
        "values": _rounded(profile.numbers[name]),
    }


def _kinds(profile: Profile) -> list[dict[str, Any]]:
    return [
        {
            "measure": m.name,
            "label": m.kind,
            "least": m.least,
            "heads": [[row, head, round(number, 4)] for row, head, number in profile.ranked(m, 4)],
        }
        for m in profile.kinds()
    ]


def _map(head_map: HeadMap) -> dict[str, Any]:
    """Pack a layer's weights: square roots in 8 bits, so that small ones keep their digits."""
    packed = np.rint(np.sqrt(np.clip(head_map.weights, 0, 1)) * 255).astype(np.uint8)
    deflated = zlib.compress(packed.tobytes(), 9)
    return {
        "weights": base64.b64encode(deflated).decode("ascii"),
        "received": _rounded(block_means(head_map.received, head_map.block)),
        "entropy": _rounded(block_means(head_map.entropy, head_map.block)),
    }


def _rounded(array: Array) -> Any:
    return np.where(np.isfinite(array), array, 0).astype(float).round(5).tolist()
