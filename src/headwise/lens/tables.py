"""Atlases as xarray Datasets, files and long tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headwise
from headwise._arrays import Array
from headwise.lens import sums as kept
from headwise.lens.atlas import Atlas
from headwise.lens.measures import MEASURES, fixed_offsets_of, patterns_of, per, similarity

if TYPE_CHECKING:
    import xarray

_GROUP = "sums"  # of the file, beside the numbers
_HEAD = ("layer", "head")


def dataset_of(atlas: Atlas) -> xarray.Dataset:
    """Return the atlas as a Dataset; `Atlas.dataset` documents it."""
    import xarray as xr

    sums, numbers = atlas.sums, atlas.numbers
    variables: dict[str, Any] = {
        name: (_HEAD, table, _facts(name)) for name, table in numbers.items()
    }
    if numbers:
        variables["pattern"] = (_HEAD, patterns_of(numbers), {"rule": _rule(patterns_of)})
        variables |= _curves(sums, numbers)
    coordinates = {"layer": atlas.layers, "head": atlas.heads}
    if "normalized_offset_mass" in variables:
        ends = np.array(kept.distances())[_occurring(sums)]
        coordinates["offset"] = ends[:, 0]
        variables["offset_to"] = ("offset", ends[:, 1], {"long_name": "last distance of a class"})
    attributes = {
        "model": atlas.model,
        "headwise": headwise.__version__,
        "texts": atlas.num_texts,
        "normalisation": "means over queries that see a key; rows of weights add to 1",
    }
    return xr.Dataset(variables, coordinates, attributes)


def _facts(name: str) -> dict[str, str]:
    m = MEASURES[name]
    facts = {"long_name": m.meaning, "formula": m.formula, "units": m.unit, "source": m.source}
    return {key: text for key, text in facts.items() if text}


def _rule(function: Any) -> str:
    return " ".join(str(function.__doc__).split("\n\n", 1)[1].split())


def _curves(sums: kept.Sums, numbers: dict[str, Array]) -> dict[str, Any]:
    """Return what has more dimensions than layer and head."""
    curves: dict[str, Any] = {}
    if "offset_mass" in sums:
        mean = per(sums["offset_mass"], sums["offset_pairs"])[..., _occurring(sums)]
        meaning = "mean weight of the visible pairs of query and key at a distance"
        curves["normalized_offset_mass"] = ((*_HEAD, "offset"), mean, {"long_name": meaning})
    if "positional" in numbers:
        meaning = "the fixed distance at which the largest weight sits most often"
        offsets = fixed_offsets_of(sums, numbers)
        curves["fixed_offset"] = (_HEAD, offsets, {"long_name": meaning, "units": "tokens"})
    if "products" in sums:
        meaning = "cosine between the weights of two heads of a layer"
        curves["head_similarity"] = (
            (*_HEAD, "other_head"),
            similarity(sums),
            {"long_name": meaning},
        )
    first = per(sums["first_received"], sums["received_texts"])
    meaning = "mean weight that the first keys receive from the queries that see them"
    curves["normalized_first_received"] = ((*_HEAD, "key"), first, {"long_name": meaning})
    rate = per(sums["sink_texts"], sums["received_texts"])
    meaning = f"share of texts whose key k receives more than {kept.SINK}"
    curves["sink_rate_of_key"] = ((*_HEAD, "key"), rate, {"long_name": meaning})
    return curves


def _occurring(sums: kept.Sums) -> slice:
    """Classes of distances, from the first that has a visible pair to the last."""
    found = np.flatnonzero(sums["offset_pairs"].any(axis=(0, 1)))
    return slice(found[0], found[-1] + 1) if len(found) else slice(0)


def save(atlas: Atlas, path: str | Path) -> None:
    """Write an atlas; `Atlas.save` documents it."""
    xr = _xarray("saving an atlas")
    path = Path(path)
    sums = {name: ((*_HEAD, *_dims(name, x)), x) for name, x in atlas.sums.items()}
    about = {"facts": json.dumps(atlas.facts), "notes": json.dumps(atlas.notes)}
    part = path.with_name(path.name + ".part")  # nothing half written takes the name
    try:
        with np.errstate(invalid="ignore"):
            _plain(dataset_of(atlas)).to_netcdf(part, engine="h5netcdf")
            xr.Dataset(sums, attrs=about).to_netcdf(part, mode="a", group=_GROUP, engine="h5netcdf")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _plain(dataset: Any) -> Any:
    """Return the dataset with texts as NetCDF stores them."""
    return (
        dataset.assign(pattern=dataset.pattern.astype(object)) if "pattern" in dataset else dataset
    )


def _dims(name: str, array: Array) -> list[str]:
    return [f"{name}_{axis}" for axis in range(array.ndim - 2)]


def load(path: str | Path) -> Atlas:
    """Read an atlas; `Atlas.load` documents it."""
    xr = _xarray("loading an atlas")
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as numbers:
            layers, heads = numbers["layer"].values.tolist(), numbers["head"].values.tolist()
            model = str(numbers.attrs["model"])
        with xr.open_dataset(path, group=_GROUP, engine="h5netcdf") as stored:
            sums = {str(name): x.values for name, x in stored.data_vars.items()}
            about = {key: json.loads(stored.attrs[key]) for key in ("facts", "notes")}
    except (OSError, KeyError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} holds no atlas that headwise saved: {error}") from None
    parts = {layer: {n: x[row] for n, x in sums.items()} for row, layer in enumerate(layers)}
    return Atlas(parts, model, facts=about["facts"], notes=about["notes"], heads=heads)


def _xarray(what: str) -> Any:
    try:
        import h5netcdf  # noqa: F401
        import xarray
    except ImportError:
        raise ImportError(
            f"{what} needs xarray and h5netcdf: pip install 'headwise[look]'"
        ) from None
    return xarray


def long_table(atlas: Atlas) -> Iterator[tuple[int | str, int, str, float]]:
    """Yield ``layer, head, measure, value``; numbers that do not exist are left out."""
    for name, table in atlas.numbers.items():
        for row, head in np.argwhere(~np.isnan(table)):
            yield atlas.layers[row], atlas.heads[head], name, float(table[row, head])


def write_csv(atlas: Atlas, path: str | Path) -> None:
    """Write a wide table; `Atlas.to_csv` documents it."""
    numbers = atlas.numbers
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*_HEAD, *numbers, "pattern"])
        patterns = patterns_of(numbers)
        for row, layer in enumerate(atlas.layers):
            for column, head in enumerate(atlas.heads):
                values = [_text(table[row, column]) for table in numbers.values()]
                writer.writerow([layer, head, *values, patterns[row, column]])


def _text(x: float) -> str:
    return "" if np.isnan(x) else f"{x:.8g}"


def write_parquet(atlas: Atlas, path: str | Path) -> None:
    """Write a long table; `Atlas.to_parquet` documents it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            "writing Parquet needs pyarrow: pip install 'headwise[parquet]'"
        ) from None
    layers, heads, names, values = zip(*long_table(atlas), strict=True)
    columns = {
        "model": [atlas.model] * len(values),
        "layer": [str(layer) for layer in layers],
        "head": heads,
        "measure": names,
        "value": values,
        "unit": [MEASURES[name].unit for name in names],
    }
    pq.write_table(pa.table(columns), path)


def write_json(atlas: Atlas, path: str | Path) -> None:
    """Write the numbers with their formulas, and what was looked at."""
    Path(path).write_text(json.dumps(as_dict(atlas), indent=1, allow_nan=False), encoding="utf-8")


def as_dict(atlas: Atlas) -> dict[str, Any]:
    """Return the numbers as plain lists; None where a head has no such number."""
    return {
        "headwise": headwise.__version__,
        "model": atlas.model,
        "texts": atlas.num_texts,
        "facts": atlas.facts,
        "notes": atlas.notes,
        "layers": atlas.layers,
        "heads": atlas.heads,
        "empty_rows": atlas.empty_rows,
        "measures": {
            name: {**_facts(name), "values": [[_json(x) for x in row] for row in table.tolist()]}
            for name, table in atlas.numbers.items()
        },
    }


def _json(x: float) -> float | None:
    return None if np.isnan(x) else round(x, 8)
