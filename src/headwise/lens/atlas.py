"""The atlas: statistics of layers × heads over texts, which can be merged, saved and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwise._arrays import Array
from headwise._errors import listing
from headwise.lens import sums as kept
from headwise.lens.measures import KINDS, Measure, numbers_of
from headwise.lens.ranking import kinds, ranked
from headwise.lens.views import Layer, Report, TextView

if TYPE_CHECKING:
    import xarray


@dataclass
class Atlas:
    """What the heads of a model do, over any number of texts.

    Attributes
    ----------
    parts
        Layer to its sums, counts and extremes, from which everything else is made; see
        `headwise.lens.sums`. Layers are numbers, or names where a model has several stacks of them.
    model
        The model's name.
    texts
        Views of some of the texts, for pages and pictures.
    facts
        What was looked at, a few words each.
    notes
        What a reader must know, a sentence each.
    heads
        The heads' numbers, in the order of all tables' columns: 0, 1, 2, ... unless some were
        selected.

    Examples
    --------
    >>> from headwise import lens
    >>> atlas = lens.profile(lens.load_sample())
    >>> atlas.strongest("previous_token", 1)
    [('16.0', 0.789...)]
    >>> atlas.dataset.induction.sel(layer=18, head=6).round(2).item()
    0.58
    """

    parts: dict[Layer, kept.Sums] = field(default_factory=dict)
    model: str = ""
    texts: list[TextView] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)

    # ---- what is in it

    @property
    def layers(self) -> list[Layer]:
        """The layers, in the order of all tables' rows."""
        return list(self.parts)

    @property
    def num_heads(self) -> int:
        """How many heads a layer has; the most where layers differ."""
        return max((len(part["rows"]) for part in self.parts.values()), default=0)

    @property
    def num_texts(self) -> int:
        """How many texts were read."""
        return max((int(part["texts"].max()) for part in self.parts.values()), default=0)

    @property
    def sums(self) -> kept.Sums:
        """All sums, ``(num_layers, num_heads, ...)``."""
        return kept.stack(list(self.parts.values()))

    @property
    def numbers(self) -> dict[str, Array]:
        """Every measure, ``(num_layers, num_heads)``; NaN where a head has none."""
        return numbers_of(self.sums) if self.parts else {}

    @property
    def empty_rows(self) -> int:
        """How many queries see no key, all heads together. They count in no mean."""
        return sum(int(part["empty_rows"].sum()) for part in self.parts.values())

    @property
    def dataset(self) -> xarray.Dataset:
        """All of it as an xarray Dataset with named dimensions; needs xarray."""
        from headwise.lens.tables import dataset_of

        return dataset_of(self)

    def name(self, row: int, head: int) -> str:
        """Return what a head is called, ``layer.head``."""
        return f"{self.layers[row]}.{self.heads[head]}"

    def kinds(self) -> list[Measure]:
        """Return the kinds of head that these texts can show."""
        return kinds(self.numbers)

    def strongest(self, measure: str, count: int = 3) -> list[tuple[str, float]]:
        """Return the heads with most of a measure, as ``("layer.head", number)``, largest first."""
        found = ranked(self._table(measure), count)
        return [(self.name(row, head), number) for row, head, number in found]

    def find(self, kind: str) -> list[tuple[str, float]]:
        """Return the heads of a kind: those whose number reaches the kind's threshold.

        Parameters
        ----------
        kind
            As `headwise.lens.MEASURES` has it: "induction", "previous-token", "positional", ...

        Examples
        --------
        >>> from headwise import lens
        >>> [name for name, _ in lens.profile(lens.load_sample()).find("previous-token")]
        ['16.0', '11.1', '17.8']
        """
        names = {measure.kind: measure for measure in KINDS}
        if kind not in names:
            raise ValueError(f"kind must be {listing(names)}, got {kind!r}")
        measure = names[kind]
        if self.parts and measure.name not in self.numbers:
            return []
        heads = self.strongest(measure.name, len(self.layers) * self.num_heads)
        return [(name, number) for name, number in heads if number >= measure.least]

    def _table(self, measure: str) -> Array:
        numbers = self.numbers
        if not numbers:
            raise ValueError("no text was read, or the block of `watch` has not ended")
        if measure not in numbers:
            raise ValueError(f"measure must be {listing(numbers)}, got {measure!r}")
        return numbers[measure]

    # ---- what is put into it

    def add(self, layer: Layer, sums: Mapping[str, Array]) -> None:
        """Add one layer's sums of some texts, ``(num_heads, ...)`` each."""
        kept.add(self.parts.setdefault(layer, {}), sums)
        if all(isinstance(number, int) for number in self.parts):
            self.parts = dict(sorted(self.parts.items(), key=lambda part: int(part[0])))
        self.heads += range(len(self.heads), self.num_heads)

    def select(self, *, heads: Iterable[int]) -> Atlas:
        """Return the atlas of some heads alone, which keep their numbers.

        Examples
        --------
        >>> from headwise import lens
        >>> few = lens.profile(lens.load_sample()).select(heads=[3, 6])
        >>> few.num_heads, few.strongest("induction", 2)
        (2, [('18.6', 0.57...), ('17.3', 0.55...)])
        """
        wanted = list(dict.fromkeys(heads))
        missing = [head for head in wanted if head not in self.heads]
        if missing or not wanted:
            raise ValueError(f"heads must be among {self.heads}, got {wanted}")
        places = [self.heads.index(head) for head in wanted]
        parts = {layer: _of_heads(part, places) for layer, part in self.parts.items()}
        texts = [_text_of_heads(text, places) for text in self.texts]
        return replace(self, parts=parts, texts=texts, heads=wanted)

    def merge(self, *others: Atlas) -> Atlas:
        """Return the atlas of all texts of this and other atlases of the same model.

        Examples
        --------
        >>> from headwise import lens
        >>> one = lens.profile(lens.load_sample())
        >>> both = one.merge(one)
        >>> both.num_texts, both.find("induction") == one.find("induction")
        (2, True)
        """
        whole = Atlas(model=self.model, facts=list(self.facts), heads=list(self.heads))
        for atlas in (self, *others):
            if not isinstance(atlas, Atlas):
                raise TypeError(f"expected atlases, got {type(atlas).__name__}")
            if whole.parts and atlas.parts and atlas.parts.keys() != whole.parts.keys():
                raise ValueError(
                    "atlases of different layers cannot be merged, got layers "
                    f"{whole.layers} and {atlas.layers}"
                )
            if whole.parts and atlas.heads != whole.heads:
                raise ValueError(
                    f"atlases of different heads cannot be merged, got heads {whole.heads} and "
                    f"{atlas.heads}"
                )
            for layer, part in atlas.parts.items():
                whole.add(layer, part)
            whole.texts += atlas.texts
            whole.notes += [note for note in atlas.notes if note not in whole.notes]
        return whole

    # ---- what comes out of it

    def report(self, title: str = "") -> Report:
        """Return what pages and pictures show."""
        notes = list(self.notes)
        if self.empty_rows:
            notes.append(f"{self.empty_rows:,} queries see no key and count in no mean.")
        return Report(
            title or self.model or "Attention heads",
            list(self.facts),
            self.layers,
            self.numbers,
            self.texts,
            notes,
            self.heads,
        )

    def save(self, path: str | Path) -> None:
        """Write it to a NetCDF file (``.nc``); needs xarray and h5netcdf.

        Any reader of NetCDF finds the numbers of `dataset` in it. Views of texts are not saved.

        Examples
        --------
        >>> import os, tempfile
        >>> from headwise import lens
        >>> atlas = lens.profile(lens.load_sample())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "sample.nc")
        ...     atlas.save(path)
        ...     again = lens.Atlas.load(path)
        >>> again.strongest("induction") == atlas.strongest("induction")
        True
        """
        from headwise.lens.tables import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> Atlas:
        """Read what `save` wrote.

        Raises
        ------
        ValueError
            Where the file is missing or holds no atlas.
        """
        from headwise.lens.tables import load

        return load(path)

    def to_csv(self, path: str | Path) -> None:
        """Write one line for each head: ``layer``, ``head`` and every number."""
        from headwise.lens.tables import write_csv

        write_csv(self, path)

    def to_parquet(self, path: str | Path) -> None:
        """Write a long table: ``layer``, ``head``, ``measure``, ``value``; needs pyarrow."""
        from headwise.lens.tables import write_parquet

        write_parquet(self, path)

    def _repr_html_(self) -> str | None:
        """Return the page, for notebooks; None where Jinja2 is not installed."""
        try:
            from headwise.lens.page import page_iframe
        except ImportError:
            return None
        return page_iframe(self.report())

    def __repr__(self) -> str:
        what = f"{len(self.parts)} layers × {self.num_heads} heads, {self.num_texts} texts"
        return f"<Atlas: {self.model or 'unnamed'}, {what}>"


def merge(atlases: Iterable[Atlas]) -> Atlas:
    """Merge atlases of the same model; see `Atlas.merge`."""
    if not (some := list(atlases)):
        raise ValueError("atlases must be one at least, got none")
    return Atlas.merge(*some)


def _of_heads(part: kept.Sums, places: list[int]) -> kept.Sums:
    there = [place for place in places if place < len(part["rows"])]
    some = {name: array[there] for name, array in part.items()}
    if "products" in some:
        some["products"] = some["products"][:, there]
    return some


def _text_of_heads(text: TextView, places: list[int]) -> TextView:
    layers = {}
    for layer, view in text.layers.items():
        arrays = {name: array for name, array in vars(view).items() if array is not None}
        layers[layer] = replace(view, **{name: array[places] for name, array in arrays.items()})
    columns = {place: column for column, place in enumerate(places)}
    windows = [replace(w, head=columns[w.head]) for w in text.windows if w.head in columns]
    return replace(text, layers=layers, windows=windows)
