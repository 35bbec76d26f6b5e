"""What of a report's texts is embedded, so that a page stays below its limit.

A text is packed with as much detail as its share of the room allows; what had to be left out is
said in words, which the page shows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.page.packing import pack, pack_texts, pack_whole
from headwise.lens.pooling import block_sizes, factor, means, pooled_map
from headwise.lens.tokens import visible
from headwise.lens.views import Layer, LayerView, TextView

LIMIT = 5_000_000  # bytes of a page
_FOR_WINDOWS = 0.15  # of a text's room, where it has windows
_FOR_TOKENS = 0.25
_CLIPS = (80, 24, 12, 6)  # characters of a token that are kept
_NAME = 120  # characters of a text's name that are kept


@dataclass(frozen=True)
class Detail:
    """How much of a text is embedded.

    Attributes
    ----------
    cells
        Rows and columns of a map, at most.
    bits
        Of each weight in a map: 16 give every digit that is shown, 8 two digits.
    strip
        Numbers along each side of a map, at most.
    queries, keys
        Queries whose largest weights are listed, at most, and how many of each.
    """

    cells: int
    bits: int
    strip: int
    queries: int
    keys: int


DETAILS = (
    Detail(384, 16, 4096, 4096, 10),
    Detail(384, 8, 4096, 1024, 8),
    Detail(256, 8, 2048, 512, 8),
    Detail(192, 8, 1024, 192, 6),
    Detail(128, 8, 512, 128, 5),
    Detail(96, 8, 512, 64, 4),
    Detail(64, 8, 256, 48, 3),
    Detail(48, 8, 256, 32, 3),
    Detail(32, 8, 128, 16, 2),
    Detail(16, 8, 64, 0, 0),
)


def fit_texts(
    texts: list[TextView], layers: list[Layer], room: int
) -> tuple[list[dict[str, Any]], list[str]]:
    """Pack texts into so many bytes: return them, and what was left out, in words.

    As many of the first texts are kept as fit with the least detail; each may use what is left,
    divided by those that are still to come.
    """
    costs = np.cumsum([1.4 * _guess(text, layers, DETAILS[-1]) for text in texts])
    kept = texts[: max(1, int(np.searchsorted(costs, room)))]
    packed: list[dict[str, Any]] = []
    missing = [text.name for text in texts[len(kept) :]]
    for number, text in enumerate(kept):
        found = fit_text(text, layers, room // (len(kept) - number))
        if found is None:
            missing.insert(0, text.name)
        else:
            packed.append(found)
            room -= size(found)
    return packed, _missing_texts(missing)


def _missing_texts(names: list[str]) -> list[str]:
    if not names:
        return []
    some = ", ".join(f"“{visible(name, 40)}”" for name in names[:3])
    others = " and others" if names[3:] else ""
    return [f"Texts that did not fit into this page are left out, {len(names)}: {some}{others}."]


def fit_text(text: TextView, layers: list[Layer], room: int) -> dict[str, Any] | None:
    """Pack one text with the most detail that fits; None where nothing does."""
    tokens, token_notes = _fit_tokens(text, int(room * _FOR_TOKENS))
    for_maps = int(room * (1 - _FOR_WINDOWS * bool(text.windows)))
    for detail in DETAILS:
        head = _head(text, detail) | {"tokens": tokens}
        if size(head) + _guess(text, layers, detail) > for_maps * 1.1:
            continue
        head["layers"] = [_pack_layer(text, layer, detail) for layer in layers]
        if size(head) <= for_maps:
            windows, window_notes = _fit_windows(text, layers, room - size(head))
            notes = [*token_notes, *_detail_notes(text, detail), *window_notes]
            return head | {"windows": windows, "notes": notes}
    return None


def _guess(text: TextView, layers: list[Layer], detail: Detail) -> float:
    """Return about how many bytes the layers take, from a few of them."""
    sizes = [size(_pack_layer(text, k, detail)) for k in layers[:: max(1, len(layers) // 3)]]
    return sum(sizes) * len(layers) / max(len(sizes), 1)


def size(data: Any) -> int:
    """Return how many bytes data takes in the page, with some room for escaped signs."""
    return len(json.dumps(data, separators=(",", ":"))) + 200


def _fit_tokens(text: TextView, room: int) -> tuple[str | None, list[str]]:
    if text.tokens is None:
        return None, []
    for most in _CLIPS:
        packed = pack_texts([visible(token, most) for token in text.tokens])
        if len(packed) <= room:
            cut = any(len(token) > most for token in text.tokens)
            return packed, [f"Tokens longer than {most} characters are cut."] if cut else []
    return None, ["The tokens' texts did not fit."]


def _fit_windows(
    text: TextView, layers: list[Layer], room: int
) -> tuple[list[dict[str, Any]], list[str]]:
    packed: list[dict[str, Any]] = []
    for number, window in enumerate(text.windows):
        found = {
            "row": layers.index(window.layer),
            "head": window.head,
            "query": window.first_query,
            "key": window.first_key,
            "queries": len(window.weights),
            "keys": len(window.weights[0]),
            "weights": pack(window.weights[None], 16),
        }
        room -= size(found)
        if room < 0:
            left = len(text.windows) - number
            return packed, [f"{left} of {len(text.windows)} windows of exact weights did not fit."]
        packed.append(found)
    return packed, []


def _head(text: TextView, detail: Detail) -> dict[str, Any]:
    """Return what all layers of a text share."""
    by = _pooling(text, detail)
    block = (text.block[0] * by[0], text.block[1] * by[1])
    views = list(text.layers.values())
    return {
        "name": visible(text.name, _NAME),
        "query_len": text.query_len,
        "kv_len": text.kv_len,
        "first_position": text.first_position,
        "block": block,
        "rows": -(-text.query_len // block[0]),
        "columns": -(-text.kv_len // block[1]),
        "bits": detail.bits,
        "distances": text.distances,
        "top_queries": _top_queries(text, detail) if views and views[0].top_keys is not None else 0,
        "top_keys": min(detail.keys, *(_kept_keys(view) for view in views)) if views else 0,
    }


def _kept_keys(view: LayerView) -> int:
    return 0 if view.top_keys is None else view.top_keys.shape[-1]


def _pooling(text: TextView, detail: Detail) -> tuple[int, int]:
    """Return how many rows and columns of a text's maps become one."""
    return (
        factor(-(-text.query_len // text.block[0]), detail.cells),
        factor(-(-text.kv_len // text.block[1]), detail.cells),
    )


def _exact(text: TextView, detail: Detail) -> bool:
    return text.block == (1, 1) and _pooling(text, detail) == (1, 1)


def _top_queries(text: TextView, detail: Detail) -> int:
    """Return how many queries' largest weights are listed: none where the map tells them."""
    told = _exact(text, detail) and detail.bits == 16
    return 0 if told or not detail.keys else min(detail.queries, text.query_len)


def _pack_layer(text: TextView, layer: Layer, detail: Detail) -> dict[str, Any] | None:
    view = text.layers.get(layer)
    if view is None:
        return None
    packed = _pack_maps(text, view, detail)
    packed["received"] = pack(_strip(view.received, detail), detail.bits)
    packed["entropy"] = pack(_strip(view.entropy, detail), detail.bits)
    packed["offsets"] = pack(view.normalized_offset_mass, 16)
    queries = _top_queries(text, detail)
    if queries and view.top_weights is not None and view.top_keys is not None:
        rows = (2 * np.arange(queries) + 1) * text.query_len // (2 * queries)
        keys = view.top_keys[:, rows, : detail.keys]
        packed["top_keys"] = pack_whole(np.maximum(keys, 0))
        packed["top_weights"] = pack(
            np.where(keys < 0, 0, view.top_weights[:, rows, : detail.keys]), 16
        )
    return packed


def _pack_maps(text: TextView, view: LayerView, detail: Detail) -> dict[str, Any]:
    """Pack a layer's means, and its largest weights where these are others."""
    by = _pooling(text, detail)
    sizes = (block_sizes(text.query_len, text.block[0]), block_sizes(text.kv_len, text.block[1]))
    packed = {"mean": pack(pooled_map(view.block_mean, sizes, by, "mean"), detail.bits)}
    if view.block_max is not None and not _exact(text, detail):
        packed["max"] = pack(pooled_map(view.block_max, sizes, by, "max"), detail.bits)
    return packed


def _strip(numbers: Array, detail: Detail) -> Array:
    length = numbers.shape[-1]
    return means(numbers, factor(length, detail.strip), np.ones(length))


def _detail_notes(text: TextView, detail: Detail) -> list[str]:
    """Say what this detail leaves out of what there is."""
    notes = []
    by, queries = _pooling(text, detail), _top_queries(text, detail)
    if by != (1, 1):
        size = f"{text.block[0] * by[0]:,} × {text.block[1] * by[1]:,}"
        notes.append(f"Maps are pooled to cells of {size} tokens to keep this page small.")
    longest = max(text.query_len, text.kv_len)
    if longest > detail.strip:
        by_strip = factor(longest, detail.strip)
        notes.append(f"Received weight and entropy are means over {by_strip} tokens.")
    listed = any(view.top_keys is not None for view in text.layers.values())
    if listed and queries < text.query_len and not _exact(text, detail):
        some = f"are listed for {queries:,} of {text.query_len:,} queries"
        notes.append(f"The largest weights of a query {some if queries else 'are left out'}.")
    return notes
