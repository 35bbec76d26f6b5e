"""Two atlases side by side: what changed, and in which heads most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headwise._arrays import Array
from headwise._html import table_html
from headwise.lens.atlas import Atlas
from headwise.lens.measures import MEASURES, per
from headwise.lens.ranking import ranked
from headwise.lens.views import Layer, Report


@dataclass(frozen=True)
class Change:
    """How much one head changed.

    ``amount`` is the root mean square of its changes, each in units of how far heads lie apart in
    that measure; ``most`` the measure that changed most, with its numbers before and after.
    """

    layer: Layer
    head: int
    amount: float
    most: str
    before: float
    after: float

    @property
    def name(self) -> str:
        """What the head is called."""
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True)
class Comparison:
    """The numbers of two atlases with the same layers and heads.

    Attributes
    ----------
    names, layers, heads
        What the two are called, and the layers and heads of both.
    before, after
        Measures that both have, ``(num_layers, num_heads)``.
    """

    names: tuple[str, str]
    layers: list[Layer]
    heads: list[int]
    before: dict[str, Array]
    after: dict[str, Array]

    @property
    def differences(self) -> dict[str, Array]:
        """After less before, for each measure."""
        return {name: self.after[name] - table for name, table in self.before.items()}

    @property
    def amounts(self) -> Array:
        """How much each head changed, ``(num_layers, num_heads)``; see `Change`."""
        return self._amounts(list(self.before))

    def _amounts(self, names: list[str]) -> Array:
        squares = [self._scaled(name) ** 2 for name in names]
        known = np.sum([~np.isnan(x) for x in squares], axis=0)
        return np.sqrt(per(np.nansum(squares, axis=0), known))

    def _scaled(self, name: str) -> Array:
        spread = np.nanstd([self.before[name], self.after[name]]) if self.before[name].size else 1
        return np.asarray(self.differences[name] / (spread or 1))

    def most_changed(self, count: int = 10, measure: str | None = None) -> list[Change]:
        """Return the heads that changed most, largest change first: in all measures, or in one.

        Examples
        --------
        >>> from headwise import lens
        >>> atlas = lens.profile(lens.load_sample())
        >>> lens.compare(atlas, atlas).most_changed(1)[0].amount
        0.0
        """
        names = list(self.before) if measure is None else [measure]
        amounts = self._amounts(names)
        found = ranked(amounts, count)
        return [self._change(row, head, amount, names) for row, head, amount in found]

    def reports(self) -> tuple[Report, Report]:
        """Return both as reports of the layers and measures that they share, for pictures."""
        before, after = (
            Report(name, [], self.layers, numbers, [], heads=self.heads)
            for name, numbers in zip(self.names, (self.before, self.after), strict=True)
        )
        return before, after

    def _repr_html_(self) -> str:
        """Return the heads that changed most as a table, for notebooks."""
        lines = [
            [c.name, f"{c.amount:.2f}", c.most, f"{c.before:.3g}", f"{c.after:.3g}"]
            for c in self.most_changed()
        ]
        caption = f"{self.names[0]} → {self.names[1]}: heads that changed most"
        return table_html(caption, ["head", "amount", "measure", "before", "after"], lines)

    def _change(self, row: int, head: int, amount: float, names: list[str]) -> Change:
        scaled = {name: abs(self._scaled(name)[row, head]) for name in names}
        most = max(scaled, key=lambda name: -1.0 if np.isnan(scaled[name]) else scaled[name])
        return Change(
            self.layers[row],
            self.heads[head],
            amount,
            most,
            float(self.before[most][row, head]),
            float(self.after[most][row, head]),
        )


def compare(before: Atlas, after: Atlas) -> Comparison:
    """Compare two atlases head by head: two models, or one before and after training.

    Parameters
    ----------
    before, after
        Atlases with the same layers and heads, best of the same texts.

    Raises
    ------
    ValueError
        Where they have no layer in common, or other numbers of heads.

    Examples
    --------
    >>> from headwise import lens
    >>> atlas = lens.profile(lens.load_sample())
    >>> found = lens.compare(atlas, atlas)
    >>> found.differences["induction"].any()
    np.False_
    """
    layers = [layer for layer in before.layers if layer in after.parts]
    if not layers or before.heads != after.heads:
        raise ValueError(
            "atlases can be compared where layers and heads are the same, got "
            f"{len(before.layers)} × {before.num_heads} and {len(after.layers)} × "
            f"{after.num_heads} with {len(layers)} layers in common"
        )
    rows = [[atlas.layers.index(layer) for layer in layers] for atlas in (before, after)]
    one, other = before.numbers, after.numbers
    names = [name for name in MEASURES if name in one and name in other]
    return Comparison(
        (before.model or "before", after.model or "after"),
        layers,
        before.heads,
        {name: one[name][rows[0]] for name in names},
        {name: other[name][rows[1]] for name in names},
    )
