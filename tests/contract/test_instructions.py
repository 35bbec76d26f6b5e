"""What the kernels cost, in instructions: a guard against slow drift that no noise disturbs.

The numbers are those of the AVX2 kernels that g++ 12 makes, counted by valgrind's callgrind. A
change that costs more, or less, than the tolerance changes them here, and says why.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "kernels"
TOLERANCE = 0.03
INSTRUCTIONS = {"prefill": 543_461, "decode": 484_663, "watched": 157_913}


def reason_to_skip() -> str:
    """Say why nothing can be counted here; nothing where it can."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed (apt-get install valgrind)"
    if platform.machine() not in {"x86_64", "AMD64"}:
        return "the counts are those of x86-64"
    asked = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True, check=False)
    version = asked.stdout.strip()
    return "" if version.startswith("12.") else f"the counts are those of g++ 12, c++ is {version}"


@pytest.fixture(scope="module")
def program() -> Path:
    """Build the program that runs the cases, where `make kernels` has not."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    tools = Path(sys.executable).parent
    cmake, ninja = str(tools / "cmake"), f"CMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    options = ["-D", ninja, "-D", "HEADWISE_PYTHON=OFF", "-D", "HEADWISE_TESTS=ON"]
    for command in (
        [cmake, "-G", "Ninja", "-S", str(ROOT), "-B", str(FOLDER), *options],
        [cmake, "--build", str(FOLDER), "--target", "count_instructions"],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return FOLDER / "count_instructions"


def count(program: Path, case: str, repeats: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program)]
    done = subprocess.run(
        [*command, "avx2", case, str(repeats)], check=True, capture_output=True, text=True
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1])


@pytest.mark.parametrize("case", INSTRUCTIONS)
def test_a_run_costs_what_it_cost(program: Path, case: str) -> None:
    cost = (count(program, case, 3) - count(program, case, 1)) / 2
    change = cost / INSTRUCTIONS[case] - 1
    assert abs(change) <= TOLERANCE, f"{case}: {cost:,.0f} instructions, {change:+.1%}"
