"""What is kept of a text for pictures and pages, beside the numbers of its heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from headwise._arrays import Array

Layer: TypeAlias = int | str  # a layer's number, or its name where a model has several stacks


@dataclass(frozen=True)
class LayerView:
    """One layer of one text, every head for itself.

    Attributes
    ----------
    block_mean, block_max
        ``(num_heads, rows, columns)``: mean and largest weight of each block of queries and keys;
        the weights themselves where a block is one query and one key. `block_max` is None where
        only means were kept.
    received
        ``(num_heads, kv_len)``: mean weight that a key gets from the queries that see it.
    entropy
        ``(num_heads, query_len)``, in nats.
    normalized_offset_mass
        ``(num_heads, len(distances))``: mean weight of the pairs of query and key in each class of
        distances.
    top_weights, top_keys
        ``(num_heads, query_len, k)``: the largest weights of each query, in descending order, and
        their keys; -1 where a query sees fewer than k. None where they were not kept.
    """

    block_mean: Array
    block_max: Array | None
    received: Array
    entropy: Array
    normalized_offset_mass: Array
    top_weights: Array | None = None
    top_keys: Array | None = None


@dataclass(frozen=True)
class Window:
    """A rectangle of exact weights of one head: ``weights`` is ``(queries, keys)``."""

    layer: Layer
    head: int
    first_query: int
    first_key: int
    weights: Array


@dataclass(frozen=True)
class TextView:
    """One text as all its layers saw it.

    Attributes
    ----------
    name
        What the text is called: a file's name, or a few of its words.
    tokens
        The text of each key's token, or None.
    query_len, kv_len
        How many queries and keys there are.
    first_position
        Where query 0 stands on the keys' axis.
    block
        How many queries and keys make one cell of the maps.
    distances
        The classes of distances in `LayerView.normalized_offset_mass`: pairs of the least and the
        greatest ``position - key``, both included, ascending. Positive: the key lies before.
    layers
        Layer number to its view.
    windows
        Rectangles of exact weights, chosen where there is something to see.
    """

    name: str
    tokens: list[str] | None
    query_len: int
    kv_len: int
    first_position: int
    block: tuple[int, int]
    distances: list[tuple[int, int]]
    layers: Mapping[Layer, LayerView]
    windows: list[Window] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """All that a page or a picture shows.

    Attributes
    ----------
    title
        The model's name, or the file's.
    facts
        What was looked at, a few words each.
    layers
        Layer numbers, in the order of the tables' rows.
    numbers
        Measure (a name in `headwise.lens.MEASURES`) to its table ``(num_layers, num_heads)``; NaN
        where a head has none.
    texts
        What is kept of each text; may be empty.
    notes
        What was left out, and other things a reader must know, a sentence each.
    heads
        The heads' numbers, in the order of the tables' columns; empty: 0, 1, 2, ...
    """

    title: str
    facts: list[str]
    layers: list[Layer]
    numbers: Mapping[str, Array]
    texts: list[TextView]
    notes: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)

    def name(self, row: int, head: int) -> str:
        """Return what the head of a table's row and column is called, ``layer.head``."""
        return f"{self.layers[row]}.{self.number(head)}"

    def number(self, head: int) -> int:
        """Return the number of the head in a column."""
        return self.heads[head] if self.heads else head
