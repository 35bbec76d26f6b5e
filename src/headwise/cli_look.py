"""``headwise look``: the heads of a recording, or of a model that reads a text."""

from __future__ import annotations

import argparse
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise._errors import listing
from headwise.cli_files import (
    UsageError,
    add_files,
    chosen_files,
    need_extra,
    progress_bar,
    write_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headwise.lens import Atlas

STORED = ("num_heads", "num_kv_heads", "causal")  # how a file is read
RECORDED = (*STORED, "query_offset", "scale")  # and what it is asked
PAGE = "headwise.html"
FILES = {
    "output": f"the page ({PAGE})",
    "png": "a picture of the grid and the strongest heads",
    "svg": "the same as SVG",
    "csv": "one line for each head",
    "parquet": "a long table",
    "json": "the numbers with their formulas",
    "atlas": "the atlas (.nc), to merge, compare and load again",
}
DESCRIPTION = """\
Print what every head does and write it to a page that needs no network.

A model: --model FOLDER, with config.json and .safetensors files or one .gguf file, and a text to
read (--text FILE, or - for standard input), or --random-repeat 50, the standard test for induction
heads. A recording: a .npz or .safetensors file with query, key and value (or layer.0.query and so
on), flat (length, heads · dim) or split (heads, length, dim), and optionally tokens, token_ids and
mask. Nothing at all: the embedded sample, nine layers of SmolLM2-135M.
"""
EPILOG = """\
examples:
  headwise look --model models/bert-base --text page.txt
  headwise look --model smollm2.gguf --random-repeat 50 --measure induction_diagonal
  cat *.txt | headwise look --model models/gpt2 --text - --length 2048 --atlas gpt2.nc
  headwise look recording.npz --num-heads 12 --causal --png heads.png
"""


def add_look(commands: Any) -> None:
    """Add the command to the parser."""
    look = commands.add_parser(
        "look",
        help="look at every head of a model or of recorded queries, keys and values",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    look.add_argument("file", nargs="?", type=Path, help="a recording (.npz, .safetensors)")
    _add_model(look.add_argument_group("a model, and what it reads"))
    _add_recording(look.add_argument_group("what a recording holds"))
    show = look.add_argument_group("what to show and write")
    show.add_argument("--measure", metavar="NAME", help="measure of the printed grid")
    show.add_argument("--heads", metavar="N,N-N", help="only these heads, of every layer")
    show.add_argument("--no-page", action="store_true", help="write no page")
    add_files(show, FILES)
    how = look.add_argument_group("how")
    how.add_argument("--threads", type=int, metavar="N", help="threads to use")
    how.add_argument("--quiet", action="store_true", help="print nothing but errors")
    how.add_argument("--no-color", action="store_true", help="print without colours")
    look.set_defaults(run=run_look)


def _add_model(group: Any) -> None:
    group.add_argument("--model", type=Path, metavar="PATH", help="a model's folder or .gguf file")
    group.add_argument(
        "--text",
        action="append",
        metavar="FILE",
        help="a text to read, - for standard input; may be repeated, numbers are of all texts",
    )
    group.add_argument(
        "--random-repeat", type=int, metavar="T", help="T random tokens, twice, instead of a text"
    )
    group.add_argument(
        "--length", type=int, metavar="N", help="at most so many tokens of each text"
    )
    group.add_argument("--layers", metavar="N,N-N", help="only these layers")


def _add_recording(group: Any) -> None:
    group.add_argument("--num-heads", type=int, metavar="N", help="heads of flat arrays")
    group.add_argument("--num-kv-heads", type=int, metavar="N", help="key/value heads, where fewer")
    group.add_argument(
        "--causal", action=argparse.BooleanOptionalAction, help="queries see no later key"
    )
    group.add_argument("--query-offset", metavar="N", help="upper_left, lower_right or a number")
    group.add_argument("--scale", type=float, metavar="X", help="factor of scores (1/√head_dim)")


def run_look(options: argparse.Namespace) -> int:
    """Look at a model or a recording."""
    need_extra("look")
    from rich.console import Console

    console = Console(no_color=options.no_color or None, quiet=options.quiet, highlight=False)
    options.output = None if options.no_page else options.output or Path(PAGE)
    files = chosen_files(options, sorted(FILES, key="output".__eq__))  # the page last
    started = time.perf_counter()
    atlas, read = _atlas(options)
    if options.heads is not None:
        atlas = _selected(atlas, options.heads)
    measure = _measure(options.measure, atlas)
    looked = time.perf_counter()
    written = write_files(files, _writers(atlas, measure))
    seconds = {
        "reading": read - started,
        "looking": looked - read,
        "writing": time.perf_counter() - looked,
    }
    from headwise.lens.terminal import print_summary

    print_summary(console, atlas, measure, seconds)
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    return 0


def _atlas(options: argparse.Namespace) -> tuple[Atlas, float]:
    """Return what was asked for, and when it had been read."""
    if options.model is None:
        _refuse(options, ("text", "random_repeat", "length", "layers"), "needs --model, a folder")
        if options.file is None:
            _refuse(options, STORED, "needs a recording, got none")
        return _of_recording(options)
    if options.file is not None:
        raise UsageError(f"a recording ({options.file}) and --model were given: expected one")
    return _of_model(options)


def _refuse(options: argparse.Namespace, names: Iterable[str], why: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} {why}")


def _of_recording(options: argparse.Namespace) -> tuple[Atlas, float]:
    from headwise import lens

    try:
        if options.file is None:
            recording = lens.load_sample()
        else:
            recording = lens.load(
                options.file,
                num_heads=options.num_heads,
                num_kv_heads=options.num_kv_heads,
                causal=options.causal,
            )
        read = time.perf_counter()
        with progress_bar(options.quiet) as report:
            atlas = lens.profile(
                recording,
                query_offset=_query_offset(options.query_offset),
                scale=options.scale,
                num_threads=options.threads,
                progress=report,
            )
    except (lens.RecordingError, ValueError) as error:
        raise UsageError(str(error)) from None
    return atlas, read


def _of_model(options: argparse.Namespace) -> tuple[Atlas, float]:
    _refuse(options, RECORDED, "needs a recording, got --model")
    if options.random_repeat is not None:
        _refuse(options, ("text", "length"), "and --random-repeat were given: expected one of them")
    elif options.text is None:
        raise UsageError("--model needs a text to read: --text FILE (or -), or --random-repeat 50")
    for name, least in (("random_repeat", 2), ("length", 1), ("threads", 1)):
        number = getattr(options, name)
        if number is not None and number < least:
            raise UsageError(f"--{name.replace('_', '-')} must be at least {least}, got {number}")
    layers = None if options.layers is None else numbers_of("--layers", options.layers)
    texts = [(name, _read_text(name)) for name in options.text or ()]
    from headwise.lens import models

    _set_threads(options.threads)
    try:
        model = models.load_model(options.model)
        tokens, notes = _tokens(model, texts, options)
        read = time.perf_counter()
        distance = None if options.random_repeat is None else options.random_repeat - 1
        with progress_bar(options.quiet) as report:
            atlas = models.look(
                model, tokens, layers=layers, induction_distance=distance, progress=report
            )
    except ValueError as error:
        raise UsageError(str(error)) from None
    atlas.notes = notes
    return atlas, read


def _tokens(model: Any, texts: list[tuple[str, str]], options: Any) -> tuple[list[Any], list[str]]:
    if options.random_repeat is not None:
        return model.repeated(options.random_repeat), []
    tokens, notes = [], []
    for name, text in texts:
        called = "standard input" if name == "-" else Path(name).name
        some, more = model.read(called, text, options.length)
        tokens.append(some)
        notes += more
    return tokens, notes


def _set_threads(count: int | None) -> None:
    if count is not None:
        import torch

        import headwise

        torch.set_num_threads(count)
        headwise.set_num_threads(count)


def _read_text(name: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--text: {name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--text: {name} is no UTF-8 text: convert it first") from None


def numbers_of(option: str, text: str) -> list[int]:
    """Read numbers and ranges, ``0-5,11``."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not match:
            raise UsageError(f"{option} must be numbers and ranges such as 0-5,11, got {text!r}")
        numbers = range(int(match[1]), int(match[2] or match[1]) + 1)
        if not numbers:
            raise UsageError(f"{option}: {part.strip()} names none, as it goes down")
        found += numbers
    return found


def _selected(atlas: Atlas, heads: str) -> Atlas:
    try:
        return atlas.select(heads=numbers_of("--heads", heads))
    except ValueError as error:
        raise UsageError(f"--heads: {error}") from None


def _query_offset(text: str | None) -> int | str | None:
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        return text


def _measure(name: str | None, atlas: Atlas) -> str:
    numbers = atlas.numbers
    if name is None:
        from headwise.lens.ranking import telling

        return telling(numbers)
    if name not in numbers:
        raise UsageError(f"--measure must be {listing(numbers)}, got {name}")
    return name


def _writers(atlas: Atlas, measure: str) -> dict[str, Callable[[Path], None]]:
    from headwise import lens
    from headwise.lens import tables

    picture = partial(lens.write_picture, atlas, measure=measure)
    return {
        "output": partial(lens.write_page, atlas),
        "png": picture,
        "svg": picture,
        "csv": atlas.to_csv,
        "parquet": atlas.to_parquet,
        "json": partial(tables.write_json, atlas),
        "atlas": atlas.save,
    }
