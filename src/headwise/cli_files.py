"""What commands share: files to write, checked first, and a progress bar."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ENDINGS = {"png": ".png", "svg": ".svg", "atlas": ".nc", "parquet": ".parquet"}
MODULES = ("rich", "jinja2", "matplotlib", "safetensors", "xarray", "h5netcdf")


class UsageError(Exception):
    """What the user asked for cannot be done; the text says why."""


def need_extra(command: str) -> None:
    """Check that what a command of the lens needs is installed."""
    missing = [module for module in MODULES if find_spec(module) is None]
    if missing:
        raise UsageError(
            f"headwise {command} needs {', '.join(missing)}: pip install 'headwise[look]'"
        )


def add_files(group: Any, kinds: Mapping[str, str]) -> None:
    """Add an option for each kind of file: name and help."""
    for kind, text in kinds.items():
        group.add_argument(f"--{kind}", type=Path, metavar="PATH", help=text)


def chosen_files(options: argparse.Namespace, kinds: Iterable[str]) -> dict[str, Path]:
    """Return the files to write, by kind; refuse what cannot be written before any work is done."""
    paths = {kind: getattr(options, kind) for kind in kinds}
    chosen = {kind: path for kind, path in paths.items() if path is not None}
    for kind, path in chosen.items():
        if not path.parent.is_dir():
            raise UsageError(f"--{kind}: the folder {path.parent} does not exist")
        if path.is_dir():
            raise UsageError(f"--{kind}: {path} is a folder, expected a file name")
        if kind == "parquet" and find_spec("pyarrow") is None:
            raise UsageError("--parquet needs pyarrow: pip install 'headwise[parquet]'")
        if kind in ENDINGS and path.suffix != ENDINGS[kind]:
            raise UsageError(f"--{kind}: {path} must end in {ENDINGS[kind]}")
    return chosen


def write_files(
    files: dict[str, Path], writers: Mapping[str, Callable[[Path], None]]
) -> list[Path]:
    """Write all files, each by the writer of its kind."""
    for kind, path in files.items():
        try:
            writers[kind](path)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
        except ImportError as error:
            raise UsageError(str(error)) from None
    return list(files.values())


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[float, str], None]]:
    """Show a bar with the time left on the error stream while long work runs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("looking", total=1.0)
        yield lambda share, text: bar.update(task, completed=share, description=text)
