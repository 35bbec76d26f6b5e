"""``headwise check``: options, progress, what is printed and written, exit codes.

Exit codes: 0 all that is offered passes, 1 something fails, 2 wrong usage or no such target.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from headwise.cli_files import UsageError, chosen_files, write_files

ARRAYS = ("numpy", "torch", "jax")
DESCRIPTION = """\
Check an implementation of attention against known results, and say what kind of mistake a failure
looks like. The target runs in a process of its own, so that it may crash or never end.

TARGET is one of
  file.py              a file with split_heads, scaled_dot_product_attention,
                       multi_head_attention_per_head, combine_heads, or some of them
  file.py:function     one function of another name
  package.module       a module with such functions; package.module:function likewise
  a library            headwise, numpy (headwise.reference in float32), torch, jax, onnxruntime
"""
EPILOG = """\
Options that a function has no parameter for are "not offered", which is no failure. Cases are
"core", which a correct textbook solution passes, or "robust", where such solutions and libraries
are known to break (rows that see no key, NaN in padding, 16-bit floats, ...).

exit codes: 0 all that is offered passes, 1 something fails, 2 wrong usage or no such target

examples:
  headwise check my_attention.py --core
  headwise check my_package.attention:attend --only mask --only causal
  headwise check torch --json report.json --junit report.xml
"""


def add_check(commands: Any) -> None:
    """Add the command to the parser."""
    check = commands.add_parser(
        "check",
        help="check an implementation of attention, yours or a library's",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("target", nargs="?", metavar="TARGET", help="what to check")
    _add_options(check)
    check.set_defaults(run=lambda options: run_check(options, check))


def _add_options(check: argparse.ArgumentParser) -> None:
    what = check.add_argument_group("what to check")
    what.add_argument("--list", action="store_true", help="list the cases and stop")
    what.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="GROUP/NAME",
        help="only a group or a case; * stands for anything; may be repeated",
    )
    what.add_argument("--core", action="store_true", help="core cases only")
    what.add_argument(
        "--as", dest="role", metavar="FUNCTION", help="which of the four functions a single one is"
    )
    what.add_argument(
        "--arrays",
        choices=ARRAYS,
        default="numpy",
        help="arrays that a Python function is given (numpy)",
    )
    how = check.add_argument_group("how")
    how.add_argument(
        "--timeout", type=float, default=10.0, metavar="S", help="seconds for each case (10)"
    )
    how.add_argument(
        "--memory",
        type=float,
        default=4.0,
        metavar="GIB",
        help="memory beyond what imports take (4); 0 is no limit",
    )
    show = check.add_argument_group("what to show and write")
    show.add_argument("--verbose", action="store_true", help="show every failing case in full")
    show.add_argument(
        "--json", metavar="PATH", type=Path, help="write the report as JSON; - prints it"
    )
    show.add_argument("--junit", metavar="PATH", type=Path, help="write JUnit XML")
    show.add_argument("--quiet", action="store_true", help="print nothing but errors")
    show.add_argument("--no-color", action="store_true", help="print without colours")


def run_check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Check a target; print and write the report."""
    if options.target is None and not options.list:
        parser.print_help()
        return 0
    from headwise.conformance.targets import TargetError

    try:
        return _list(options) if options.list else _check(options)
    except (UsageError, TargetError, ValueError) as error:
        print(f"headwise: error: {error}", file=sys.stderr)
        return 2


def _list(options: argparse.Namespace) -> int:
    from headwise.conformance.cases import load_cases, select
    from headwise.conformance.terminal import listing

    _print(listing(select(load_cases(), options.only, options.core), _painter(options)))
    return 0


def _print(text: str) -> None:
    """Print, with question marks for what the output has no characters for."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding))


def _check(options: argparse.Namespace) -> int:
    _check_options(options)
    printed = options.json == Path("-")
    files = chosen_files(options, ["junit"] if printed else ["json", "junit"])
    from headwise.conformance.report import check
    from headwise.conformance.terminal import render

    report = check(
        options.target,
        only=options.only,
        core=options.core,
        function=options.role,
        arrays=options.arrays,
        timeout=options.timeout,
        memory_gib=options.memory,
        progress=_progress(options.quiet),
    )
    if printed:
        print(_as_json(report))
    elif not options.quiet:
        _print(render(report, _painter(options), options.verbose))
    _write(report, files)
    return 0 if report.ok else 1


def _check_options(options: argparse.Namespace) -> None:
    """Refuse what cannot be meant before any work is done."""
    from headwise.conformance.cases import FUNCTIONS

    if options.role is not None and options.role not in FUNCTIONS:
        raise UsageError(f"--as must be one of {', '.join(FUNCTIONS)}, got {options.role}")
    if not options.timeout > 0:
        raise UsageError(f"--timeout must be greater than 0, got {options.timeout:g}")
    if not options.memory >= 0:
        raise UsageError(f"--memory must be at least 0, got {options.memory:g}")


def _as_json(report: Any) -> str:
    return json.dumps(report.as_dict(), indent=1)


def _write(report: Any, files: dict[str, Path]) -> None:
    from headwise.conformance.junit import write_junit

    writers = {
        "json": lambda path: path.write_text(_as_json(report), encoding="utf-8"),
        "junit": lambda path: write_junit(report, path),
    }
    write_files(files, writers)


def _painter(options: argparse.Namespace) -> Any:
    from headwise.conformance.terminal import Painter

    wanted = sys.stdout.isatty() or bool(os.environ.get("FORCE_COLOR"))
    color = wanted and not options.no_color and not os.environ.get("NO_COLOR")
    return Painter(color, shutil.get_terminal_size((100, 24)).columns)


def _progress(quiet: bool) -> Any:
    """Show the case that runs, on a terminal's error stream."""
    if quiet or not sys.stderr.isatty():
        return lambda *_: None

    def show(number: int, total: int, name: str) -> None:
        text = f"checking {number} of {total}: {name}"
        end = "\r\x1b[K" if number == total else ""
        print(f"\r\x1b[K{text}{end}", end="", file=sys.stderr, flush=True)

    return show
