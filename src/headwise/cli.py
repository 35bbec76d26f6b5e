"""The command line: ``headwise look``, ``compare``, ``check`` and ``info``.

Exit codes: 0 done, 1 the input cannot be looked at, or something that was checked fails, 2 wrong
usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Sequence

import numpy as np

import headwise
from headwise import _binding
from headwise._threads import explain_num_threads, get_num_threads
from headwise.cli_check import add_check
from headwise.cli_compare import add_compare
from headwise.cli_files import UsageError
from headwise.cli_look import add_look


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
    add_look(commands)
    add_compare(commands)
    add_check(commands)
    info = commands.add_parser("info", help="version, instruction set and threads, and why")
    info.set_defaults(run=run_info)
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
