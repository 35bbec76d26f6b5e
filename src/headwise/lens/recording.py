"""Recorded queries, keys and values of a model, read from files.

A file holds ``query``, ``key`` and ``value`` of one layer, or ``layer.N.query`` and so on of
several; flat ``(seq_len, num_heads · head_dim)`` or already split ``(num_heads, seq_len,
head_dim)``, with or without a batch dimension of 1. It may hold ``tokens`` (texts), ``token_ids``
and ``mask``, and say ``num_heads``, ``num_kv_heads``, ``causal`` and ``model``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise._errors import listing, shape_text
from headwise.heads import split_heads
from headwise.lens import formats

ROLES = ("query", "key", "value")
_LAYER = re.compile(r"(?:layers?[._](\d+)[._])?(query|key|value)")
SAMPLE = "smollm2-135m.safetensors"


class RecordingError(ValueError):
    """A file that cannot be looked at; the message says why and what to do."""


@dataclass(frozen=True)
class Layer:
    """One layer's query ``(num_heads, query_len, head_dim)``, key and value, float32 or float64."""

    query: Array
    key: Array
    value: Array


@dataclass(frozen=True)
class Recording:
    """What a model's attention was given for one text.

    Attributes
    ----------
    layers
        Layer number to its arrays.
    tokens
        The text of each key's token, or None.
    token_ids
        Numbers that are equal where tokens are, or None.
    mask
        An attention mask for all layers, or None.
    causal
        Whether queries see only keys up to their own position.
    model, text
        The model's name and the passage, where known.
    """

    layers: dict[int, Layer]
    tokens: list[str] | None = None
    token_ids: Array | None = None
    mask: Array | None = None
    causal: bool = False
    model: str = ""
    text: str = ""
    source: str = field(default="", compare=False)

    @property
    def _any(self) -> Layer:
        """One of the layers: all have the same heads and lengths."""
        return next(iter(self.layers.values()))

    @property
    def num_heads(self) -> int:
        """How many query heads each layer has."""
        return int(self._any.query.shape[0])

    @property
    def num_kv_heads(self) -> int:
        """How many key/value heads each layer has."""
        return int(self._any.key.shape[0])

    @property
    def query_len(self) -> int:
        """How many queries there are."""
        return int(self._any.query.shape[1])

    @property
    def kv_len(self) -> int:
        """How many keys there are."""
        return int(self._any.key.shape[1])

    def __repr__(self) -> str:
        heads = f"{len(self.layers)} layers × {self.num_heads} heads over {self.num_kv_heads}"
        lengths = f"{self.query_len} × {self.kv_len}"
        return f"<Recording: {self.model or self.source or 'unnamed'}, {heads}, {lengths}>"


def load_sample() -> Recording:
    """Return the embedded sample: nine layers of SmolLM2-135M over a short passage.

    Examples
    --------
    >>> from headwise import lens
    >>> sample = lens.load_sample()
    >>> sample
    <Recording: SmolLM2-135M-Instruct, 9 layers × 9 heads over 3, 156 × 156>
    >>> sample.model, sample.num_heads, sample.num_kv_heads, sample.kv_len
    ('SmolLM2-135M-Instruct', 9, 3, 156)
    """
    with resources.as_file(resources.files("headwise.lens") / "data" / SAMPLE) as path:
        return load(path)


def load(
    path: str | Path,
    *,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    causal: bool | None = None,
) -> Recording:
    """Read a recording from a ``.npz`` or ``.safetensors`` file.

    Parameters
    ----------
    path
        The file.
    num_heads, num_kv_heads
        Heads of flat arrays, where the file does not say or says otherwise.
    causal
        Whether attention is causal, likewise; False where nothing says.

    Raises
    ------
    RecordingError
        Where the file is missing, is no such file, or its arrays do not fit one another.
    """
    path = Path(path)
    try:
        arrays, facts = formats.read(path)
    except formats.FormatError as error:
        raise RecordingError(str(error)) from None
    heads = num_heads or _whole(facts, "num_heads")
    kv_heads = num_kv_heads or _whole(facts, "num_kv_heads") or heads
    layers = {
        number: _layer(number, roles, heads, kv_heads) for number, roles in _grouped(arrays).items()
    }
    _check_alike(layers)
    return Recording(
        layers,
        *_tokens(arrays, facts, layers),
        mask=arrays.get("mask"),
        causal=_truth(facts, "causal") if causal is None else causal,
        model=str(facts.get("model", "")),
        text=str(facts.get("text", "")),
        source=path.name,
    )


def _whole(facts: dict[str, Any], name: str) -> int | None:
    if name not in facts:
        return None
    try:
        return int(facts[name])
    except ValueError:
        raise RecordingError(f"{name} in the file is no whole number: {facts[name]!r}") from None


def _truth(facts: dict[str, Any], name: str) -> bool:
    return str(facts.get(name, "")).lower() in {"true", "1", "yes"}


def _grouped(arrays: dict[str, Array]) -> dict[int, dict[str, Array]]:
    """Sort the arrays by layer and role."""
    found: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        match = _LAYER.fullmatch(name)
        if match:
            found.setdefault(int(match[1] or 0), {})[match[2]] = array
    if not found:
        names = ", ".join(sorted(arrays)[:8]) or "nothing"
        raise RecordingError(
            "the file holds no query, key and value (or layer.N.query and so on), "
            f"but {names}: rename its arrays"
        )
    for number, roles in found.items():
        missing = [role for role in ROLES if role not in roles]
        if missing:
            raise RecordingError(f"layer {number} of the file has no {listing(missing)}")
    return dict(sorted(found.items()))


def _layer(number: int, roles: dict[str, Array], heads: int | None, kv_heads: int | None) -> Layer:
    split = [
        _split(f"layer {number} {role}", roles[role], heads if role == "query" else kv_heads)
        for role in ROLES
    ]
    q, k, v = split
    if q.shape[2] != k.shape[2] or k.shape[:2] != v.shape[:2] or q.shape[0] % k.shape[0]:
        raise RecordingError(
            f"layer {number}: query {shape_text(q.shape)}, key {shape_text(k.shape)} and value "
            f"{shape_text(v.shape)} (heads, length, dim) do not fit: expected the same head_dim in "
            "query and key, the same heads and length in key and value, and num_heads a multiple "
            "of num_kv_heads; check --num-heads and --num-kv-heads"
        )
    return Layer(q, k, v)


def _split(name: str, array: Array, heads: int | None) -> Array:
    """Bring one array to ``(heads, length, dim)`` in a working precision."""
    if array.dtype.kind not in "fiu":
        raise RecordingError(f"{name} has dtype {array.dtype}, expected floating point")
    while array.ndim > 2 and array.shape[0] == 1 and (array.ndim > 3 or heads not in {None, 1}):
        array = array[0]
    if array.ndim == 2:
        array = _split_flat(name, array, heads)
    if array.ndim != 3:
        raise RecordingError(
            f"{name} has shape {shape_text(array.shape)}, expected (length, heads · dim) or "
            "(heads, length, dim) of one text: pick one of the batch"
        )
    if heads is not None and array.shape[0] != heads:
        raise RecordingError(
            f"{name} has shape {shape_text(array.shape)}, so {array.shape[0]} heads, but {heads} "
            "were asked for: check --num-heads and --num-kv-heads"
        )
    if 0 in array.shape:
        raise RecordingError(f"{name} is empty: its shape is {shape_text(array.shape)}")
    return _finite(name, array.astype(np.float64 if array.dtype.itemsize == 8 else np.float32))


def _split_flat(name: str, array: Array, heads: int | None) -> Array:
    if heads is None:
        raise RecordingError(
            f"{name} is flat, {shape_text(array.shape)}: say how many heads it has with "
            "--num-heads (and --num-kv-heads where key and value have fewer)"
        )
    if heads < 1 or array.shape[1] % heads:
        raise RecordingError(
            f"{name} has {array.shape[1]} columns, which {heads} heads do not divide: check "
            "--num-heads and --num-kv-heads"
        )
    return split_heads(array, heads)


def _finite(name: str, array: Array) -> Array:
    wrong = ~np.isfinite(array)
    if wrong.any():
        head, row, column = np.argwhere(wrong)[0]
        raise RecordingError(
            f"{name} holds {np.count_nonzero(wrong)} numbers that are not finite, the first at "
            f"head {head}, row {row}, column {column}: {array[head, row, column]}"
        )
    return array


def _check_alike(layers: dict[int, Layer]) -> None:
    """All layers must have the same heads and lengths, or there is no common grid."""
    shapes = {number: (a.query.shape[:2], a.key.shape[:2]) for number, a in layers.items()}
    first = next(iter(shapes))
    for number, shape in shapes.items():
        if shape != shapes[first]:
            raise RecordingError(
                f"layers {first} and {number} differ in heads or length: "
                f"{shapes[first]} and {shape} (query, key)"
            )


def _tokens(
    arrays: dict[str, Array], facts: dict[str, Any], layers: dict[int, Layer]
) -> tuple[list[str] | None, Array | None]:
    """Return the tokens' texts and numbers; texts stand in for missing numbers."""
    length = next(iter(layers.values())).key.shape[1]
    texts, ids = facts.get("tokens"), arrays.get("token_ids")
    if ids is not None:
        ids = ids.reshape(-1)  # a batch of one, as tokenizers give it
    for name, given in (("tokens", texts), ("token_ids", ids)):
        if given is not None and len(given) != length:
            raise RecordingError(f"{name} holds {len(given)} tokens, but there are {length} keys")
    if texts is not None and ids is None:
        ids = np.unique(np.asarray(texts, dtype=object).astype(str), return_inverse=True)[1]
    return texts, ids
