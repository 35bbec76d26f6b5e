"""The pictures: each function draws one, and its docstring says what there is to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import headwise
from headwise.lens.tokens import marked
from reference import sample
from reference.drawing import Drawing, shades_of

Array = Any

PICTURES: dict[str, Callable[[Drawing], None]] = {}


def picture(
    name: str, width: int, height: int
) -> Callable[[Callable[[Drawing], None]], Callable[[Drawing], None]]:
    """Keep a function that draws the picture of a name."""

    def kept(draw: Callable[[Drawing], None]) -> Callable[[Drawing], None]:
        PICTURES[name] = draw
        SIZES[name] = (width, height)
        return draw

    return kept


SIZES: dict[str, tuple[int, int]] = {}


def drawn() -> dict[str, str]:
    """Return every picture, by the name of its file."""
    files = {}
    for name, draw in PICTURES.items():
        words = str(draw.__doc__).removeprefix("Draw ")
        drawing = Drawing(*SIZES[name], words[0].upper() + words[1:])
        draw(drawing)
        files[f"stat-{name}.svg"] = drawing.svg()
    return files


# ---- what pictures share ------------------------------------------------------------------------


def head(
    d: Drawing, place: tuple[float, float], name: str, words: str, cell: float = 1.25
) -> Array:
    """Paint a head of the sample with its name above, and return its weights."""
    layer, number = (int(part) for part in name.split("."))
    weights, (x, y) = sample.weights(layer, number), place
    d.label(x, y - 10, name, words)
    d.map(place, cell, weights)
    return weights


def curve(d: Drawing, place: tuple[float, float], size: tuple[float, float], name: str) -> None:
    """Draw the mean weight by distance of a head, on a logarithmic axis."""
    (x, y), (width, height) = place, size
    layer, number = (int(part) for part in name.split("."))
    found = sample.seen(layer).normalized_offset_mass
    back = found.first >= 0
    means = found.values[0, number, back]
    longest = np.log2(1 + len(means))

    def across(distance: float) -> float:
        return float(x + width * np.log2(1 + max(0.0, distance)) / longest)

    d.line([(x, y), (x + width, y)], "frame")
    sides = [(k + side, m) for k, m in enumerate(means) for side in (-0.5, 0.5)]
    d.line([(across(distance), y - height * m) for distance, m in sides])
    for tick in (0, 1, 3, 10, 30, 100):
        d.text(across(tick), y + 14, str(tick), "c s soft")
    d.text(x + width, y - height + 4, f"at most {means.max():.2f}", "e s soft")


# ---- pictures -----------------------------------------------------------------------------------


@picture("four-tokens", 760, 330)
def four_tokens(d: Drawing) -> None:
    """Draw the weights of four queries on four keys, and the numbers of rows and keys."""
    x, y, cell = 70, 62, 44
    d.text(x + 2 * cell, 22, "keys", "c")
    d.map((x, y), cell, sample.PATTERN)
    for i, j in np.ndindex(4, 4):
        if i == 0:
            d.text(x + (j + 0.5) * cell, y - 10, str(j), "c soft")
        if j <= i:
            ink = "over" if shades_of(sample.PATTERN[i, j]) > 5 else ""
            words = f"{sample.PATTERN[i, j]:.2f}"
            d.text(x + (j + 0.5) * cell, y + (i + 0.5) * cell + 5, words, f"c {ink}")
    for i in range(4):
        d.text(x - 10, y + (i + 0.5) * cell + 5, f"query {i}", "e soft")
    _rows_of_four(d, x + 4 * cell + 44, y, cell)
    for k, name in enumerate(("received", "normalized_received", "viewer_count")):
        numbers = getattr(sample.four_tokens(), name)[0]
        d.text(x + 4 * cell + 12, y + 4 * cell + 22 + 20 * k, name)
        for j, number in enumerate(numbers):
            d.text(x + (j + 0.5) * cell, y + 4 * cell + 22 + 20 * k, f"{number:.3g}", "c")


def _rows_of_four(d: Drawing, x: float, y: float, cell: float) -> None:
    names = ("entropy", "max_weight", "distance", "self_weight", "previous_weight", "first_weight")
    for k, name in enumerate(names):
        words = name.removesuffix("_weight") + (" weight" if name == "max_weight" else "")
        d.text(x + 74 * k + 10, y - 10, words, "c")
        for i, number in enumerate(getattr(sample.four_tokens(), name)[0]):
            d.text(x + 74 * k + 10, y + (i + 0.5) * cell + 5, f"{abs(number):.3g}", "c")


@picture("place", 760, 380)
def place(d: Drawing) -> None:
    """Draw three heads of the sample and, below each, its mean weight by distance."""
    kinds = {"16.0": "the token before", "11.6": "the token itself", "23.6": "mostly the first"}
    for k, (name, words) in enumerate(kinds.items()):
        x = 20 + 250 * k
        head(d, (x, 40), name, words, 1.4)
        curve(d, (x, 344), (218, 70), name)
    d.text(20, 374, "below: mean weight by distance, in tokens back from the query", "s soft")


@picture("entropy", 760, 250)
def entropy(d: Drawing) -> None:
    """Draw the entropy of each query in three heads, and that of an even spread."""
    x, y, width, height = 46, 216, 560, 190
    count = sample.recording().query_len
    most = np.log(count)

    def points(numbers: Array) -> list[tuple[float, float]]:
        return [(x + width * i / count, y - height * n / most) for i, n in enumerate(numbers)]

    for nats in range(6):
        d.line([(x, y - height * nats / most), (x + width, y - height * nats / most)], "frame")
        d.text(x - 8, y - height * nats / most + 4, str(nats), "e s soft")
    d.line(points(np.log(1 + np.arange(count))), "line dots")
    d.text(x + width + 10, y - height + 4, "log n, an even spread", "s")
    for name, kind, up in (("0.0", "line", 24), ("18.6", "mark", 0), ("18.8", "line", -4)):
        layer, number = (int(part) for part in name.split("."))
        line = points(sample.seen(layer).entropy[0, number])
        d.line(line, kind)
        d.text(x + width + 10, line[-1][1] + up, name, "b s" + (" marked" * (kind == "mark")))
    d.text(x, 16, "entropy in nats", "s soft")
    d.text(x + width, y + 18, "query", "e s soft")


@picture("received", 760, 210)
def received(d: Drawing) -> None:
    """Draw what the keys of a head receive: added up, and the mean of those who see them."""
    found, number = sample.seen(0), 0
    sides = {"received": "all weight", "normalized_received": "mean weight"}
    for k, (name, words) in enumerate(sides.items()):
        heights, x = getattr(found, name)[0, number], 20 + 375 * k
        d.label(x, 24, name, f"{words}, at most {heights.max():.2f}")
        d.bars((x, 180), 340, 140 * heights / heights.max())
        d.line([(x, 180), (x + 340, 180)], "frame")
        d.text(x + 340, 198, "key", "e s soft")
    d.text(20, 198, "head 0.0, which looks nearly everywhere", "s soft")


@picture("block-map", 760, 300)
def block_map(d: Drawing) -> None:
    """Draw a head as it is, and made smaller by means and by maxima of blocks."""
    kept = sample.recording().layers[18]
    query, key, value = (x[None].astype(np.float64) for x in (kept.query, kept.key, kept.value))
    blocks: Any = headwise.statistics.block_map(20, 20)
    found = headwise.observe(query, key, value, headwise.causal(), statistics=blocks).block_map
    head(d, (20, 44), "18.6", "every weight", 1.45)
    sizes = f"{found.block_queries} × {found.block_keys}"
    for k, (words, table) in enumerate((("mean", found.mean), ("largest", found.max))):
        cell = 1.45 * found.block_keys
        d.label(270 + 250 * k, 34, words, f"weight of {sizes} pairs")
        d.map((270 + 250 * k, 44), cell, table[0, 6])
    d.text(270, 290, "means keep the mass, maxima keep single weights", "s soft")


@picture("top-keys", 760, 160)
def top_keys(d: Drawing) -> None:
    """Draw the four keys that one query of an induction head attends to most."""
    query, tokens = 118, sample.recording().tokens or []
    top = sample.seen(18).top_keys
    d.text(20, 26, f"18.6, query {query} “{tokens[query].strip()}”", "b")
    d.text(72, 46, "after", "s soft")
    d.text(130, 46, "key", "s soft")
    d.text(190, 46, "weight", "s soft")
    for k in range(4):
        key, weight = int(top.keys[0, 6, query, k]), float(top.weights[0, 6, query, k])
        y = 68 + 24 * k
        before = marked(tokens[key - 1], 12) if key else "(begin)"
        d.text(60, y, str(key), "e soft")
        d.text(72, y, before, "soft")
        d.text(130, y, marked(tokens[key], 12))
        d.box(190, y - 12, max(1.0, 420 * weight), 14, "bar")
        d.text(198 + 420 * weight, y, f"{weight:.2f}")


@picture("copies", 760, 330)
def copies(d: Drawing) -> None:
    """Draw an induction head and a duplicate-token head, with the keys that count circled."""
    ids = np.asarray(sample.recording().token_ids)
    earlier = np.tril(ids[:, None] == ids[None, :], -1)
    after = np.roll(earlier, 1, axis=1)
    kinds = {"18.6": (after, "what followed copies"), "8.0": (earlier, "copies")}
    queries, keys, cell, y = slice(114, 146), slice(43, 83), 8.4, 36.0
    for k, (name, (which, words)) in enumerate(kinds.items()):
        layer, number = (int(part) for part in name.split("."))
        x = 20 + 380.0 * k
        d.label(x, 24, name, f"and {words}, circled")
        d.map((x, y), cell, sample.weights(layer, number)[queries, keys])
        rings = [_ring(x + (j + 0.5) * cell, y + (i + 0.5) * cell)
                 for i, j in np.argwhere(which[queries, keys])]  # fmt: skip
        d.path("".join(rings), "mark")
    d.text(20, 322, f"queries {queries.start} to {queries.stop - 1} of the sample", "s soft")
    d.text(356, 322, f"keys {keys.start} to {keys.stop - 1}", "e s soft")


def _ring(x: float, y: float, radius: float = 5.5) -> str:
    left = f"M{x - radius:.1f} {y:.1f}"
    return f"{left}a{radius} {radius} 0 1 0 {2 * radius} 0a{radius} {radius} 0 1 0 {-2 * radius} 0z"


@picture("similarity", 760, 250)
def similarity(d: Drawing) -> None:
    """Draw the cosines between the nine heads of two layers of the sample."""
    for k, layer in enumerate((5, 11)):
        cosines, x, y, cell = sample.seen(layer).head_similarity[0], 46 + 380 * k, 50, 20
        d.text(x, 22, f"layer {layer}", "b")
        d.map((x, y), cell, cosines)
        for a in range(9):
            d.text(x + (a + 0.5) * cell, y - 6, str(a), "c s soft")
            d.text(x - 6, y + (a + 0.5) * cell + 4, str(a), "e s soft")
        pairs = [(cosines[a, b], a, b) for a in range(9) for b in range(a)]
        for row, (words, pair) in enumerate((("most", max(pairs)), ("least", min(pairs)))):
            names = f"{layer}.{pair[2]}, {layer}.{pair[1]}"
            d.text(x + 196, y + 20 + 22 * row, f"{words}: {names}  {pair[0]:.2f}", "s")


@picture("measures", 760, 276)
def measures(d: Drawing) -> None:
    """Draw three measures of the 81 heads of the sample: layers down, heads across."""
    atlas = sample.atlas()
    for k, name in enumerate(("previous_token", "induction", "first_key")):
        x, y, cell, table = 40 + 250 * k, 56, 22, atlas.numbers[name]
        d.map((x, y), cell, table)
        best, number = atlas.strongest(name, 1)[0]
        row, column = divmod(int(np.argmax(table)), table.shape[1])
        d.box(x + column * cell, y + row * cell, cell, cell, "mark")
        d.label(x, 22, name, f"most: {best}  {number:.2f}")
        for a in range(9):
            d.text(x + (a + 0.5) * cell, y - 6, str(a), "c s soft")
            d.text(x - 6, y + (a + 0.5) * cell + 4, str(atlas.layers[a]), "e s soft")


@picture("patterns", 760, 270)
def patterns(d: Drawing) -> None:
    """Draw three heads of the sample, one of each pattern that it has."""
    named = {"18.7": "vertical", "16.0": "diagonal", "0.0": "heterogeneous"}
    for k, (name, words) in enumerate(named.items()):
        head(d, (20 + 250 * k, 40), name, words, 1.4)
