"""The command line: ``headwise look``, ``headwise check`` and ``headwise info``.

Exit codes: 0 done, 1 the input cannot be looked at, or something that was checked fails, 2 wrong
usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headwise
from headwise import _binding
from headwise._errors import listing
from headwise._threads import explain_num_threads, get_num_threads
from headwise.cli_check import add_check

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwise.lens import Atlas, Recording

PAGE = "headwise.html"
PICTURES = ("png", "svg")
OUTPUTS = ("output", *PICTURES, "csv", "json")  # options that name a file to write


class UsageError(Exception):
    """What the user asked for cannot be done; the text says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except UsageError as error:
        print(f"headwise: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("headwise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="headwise",
        description="Exact multi-head attention on the CPU, with every head in view.",
    )
    parser.add_argument("--version", action="version", version=f"headwise {headwise.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_look(commands)
    add_check(commands)
    info = commands.add_parser("info", help="version, instruction set and threads, and why")
    info.set_defaults(run=run_info)
    return parser


def _add_look(commands: Any) -> None:
    look = commands.add_parser(
        "look",
        help="look at every head of recorded queries, keys and values",
        description="Print the heads of a recording and write them to a page. A recording is a "
        ".npz or .safetensors file with query, key and value (or layer.0.query and so on), flat "
        "(length, heads · dim) or split (heads, length, dim), and optionally tokens, token_ids and "
        "mask. Without a file: the embedded sample, nine layers of SmolLM2-135M.",
    )
    look.add_argument("file", nargs="?", type=Path, help="a .npz or .safetensors file")
    what = look.add_argument_group("what the file holds")
    what.add_argument("--num-heads", type=int, metavar="N", help="heads of flat arrays")
    what.add_argument("--num-kv-heads", type=int, metavar="N", help="key/value heads, where fewer")
    what.add_argument(
        "--causal", action=argparse.BooleanOptionalAction, help="queries see no later key"
    )
    what.add_argument("--query-offset", metavar="N", help="upper_left, lower_right or a number")
    what.add_argument("--scale", type=float, metavar="X", help="factor of scores (1/√head_dim)")
    show = look.add_argument_group("what to show and write")
    show.add_argument("--measure", metavar="NAME", help="measure of the printed grid")
    show.add_argument(
        "--output", type=Path, default=Path(PAGE), metavar="HTML", help=f"page ({PAGE})"
    )
    show.add_argument("--no-page", action="store_true", help="write no page")
    for kind in OUTPUTS[1:]:
        show.add_argument(f"--{kind}", type=Path, metavar="PATH", help=f"write {kind.upper()}, too")
    how = look.add_argument_group("how")
    how.add_argument("--threads", type=int, metavar="N", help="threads to use")
    how.add_argument("--quiet", action="store_true", help="print nothing but errors")
    how.add_argument("--no-color", action="store_true", help="print without colours")
    look.set_defaults(run=run_look)


def run_info(_: argparse.Namespace) -> int:
    """Print what this installation is and how it will run."""
    try:
        chosen = f"{_binding.instruction_set()} ({_binding.explain_instruction_set()})"
    except RuntimeError as error:
        raise UsageError(str(error)) from None
    lines = {
        "headwise": headwise.__version__,
        "instruction set": chosen,
        "threads": f"{get_num_threads()} ({explain_num_threads()})",
        "python": f"{platform.python_version()} ({platform.machine()})",
        "numpy": np.__version__,
    }
    for name, value in lines.items():
        print(f"{name:<16} {value}")
    return 0


def run_look(options: argparse.Namespace) -> int:
    """Look at a recording."""
    _need_extra()
    from rich.console import Console

    from headwise import lens

    console = Console(no_color=options.no_color or None, quiet=options.quiet, highlight=False)
    _check_outputs(options)
    started = time.perf_counter()
    try:
        recording = _load(options)
        loaded = time.perf_counter()
        with _progress(options.quiet) as report:
            atlas = lens.profile(
                recording,
                query_offset=_query_offset(options.query_offset),
                scale=options.scale,
                num_threads=options.threads,
                progress=report,
            )
    except (lens.RecordingError, ValueError) as error:
        raise UsageError(str(error)) from None
    measure = _measure(options.measure, atlas)
    looked = time.perf_counter()
    written = _write(options, atlas, measure)
    seconds = {
        "reading": loaded - started,
        "looking": looked - loaded,
        "writing": time.perf_counter() - looked,
    }
    from headwise.lens.terminal import print_summary

    print_summary(console, atlas, measure, seconds)
    for path in written:
        console.print(f"wrote {path}")
    return 0


def _need_extra() -> None:
    from importlib.util import find_spec

    missing = [m for m in ("rich", "jinja2", "matplotlib", "safetensors") if find_spec(m) is None]
    if missing:
        raise UsageError(f"headwise look needs {', '.join(missing)}: pip install 'headwise[look]'")


def _load(options: argparse.Namespace) -> Recording:
    from headwise import lens

    if options.file is None:
        return lens.load_sample()
    return lens.load(
        options.file,
        num_heads=options.num_heads,
        num_kv_heads=options.num_kv_heads,
        causal=options.causal,
    )


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
        return "induction" if "induction" in numbers else "entropy"
    if name not in numbers:
        raise UsageError(f"--measure must be {listing(numbers)}, got {name}")
    return name


def _outputs(options: argparse.Namespace) -> dict[str, Path]:
    """Return the files to write, by option."""
    paths = {option: getattr(options, option) for option in OUTPUTS}
    if options.no_page:
        del paths["output"]
    return {option: path for option, path in paths.items() if path is not None}


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse what cannot be written before any work is done."""
    for option, path in _outputs(options).items():
        if not path.parent.is_dir():
            raise UsageError(f"--{option}: the folder {path.parent} does not exist")
        if path.is_dir():
            raise UsageError(f"--{option}: {path} is a folder, expected a file name")
        if option in PICTURES and path.suffix != f".{option}":
            raise UsageError(f"--{option}: {path} must end in .{option}")


def _write(options: argparse.Namespace, atlas: Atlas, measure: str) -> list[Path]:
    """Write all files that were asked for."""
    from headwise import lens
    from headwise.lens import tables

    picture = partial(lens.write_picture, measure=measure)
    writers: dict[str, Callable[[Atlas, Path], None]] = {
        "output": lens.write_page,
        **dict.fromkeys(PICTURES, picture),
        "csv": tables.write_csv,
        "json": tables.write_json,
    }
    outputs = _outputs(options)
    for option, path in outputs.items():
        try:
            writers[option](atlas, path)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    return list(outputs.values())


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[float, str], None]]:
    """Show a bar on the error stream while long work runs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("looking", total=1.0)
        yield lambda share, text: bar.update(task, completed=share, description=text)


if __name__ == "__main__":
    sys.exit(main())
