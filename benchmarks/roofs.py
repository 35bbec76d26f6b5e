"""What the machine can do at most, measured in the same run as the peers.

``roofs.cpp`` is compiled for this processor when the benchmark starts. Where that fails, NumPy's
own matrix product stands in (`benchmarks.gemm`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.cases import Case
from benchmarks.processes import clean_environment
from benchmarks.quiet import Quiet, ended_children_time

SOURCE = Path(__file__).with_name("roofs.cpp")
FLAGS = ("-std=c++20", "-O3", "-march=native", "-ffp-contract=fast", "-pthread")
GEMM = (sys.executable, "-m", "benchmarks.gemm")
BURST = {"fma32": 0.1, "fma64": 0.1, "read": 0.15}  # seconds of one measurement between peers


class Roofs:
    """Measures roofs with ``threads`` threads, whenever asked."""

    def __init__(self, threads: int, folder: Path, quiet: Quiet) -> None:
        self.threads = threads
        self.quiet = quiet
        self.command = compile_roofs(folder / "roofs")
        self._narrow = compile_roofs(folder / "narrow", "-mno-avx512f")

    @property
    def compiled(self) -> bool:
        """Whether the rates are the processor's, and not those of NumPy's matrix product."""
        return self.command != GEMM

    def rate(self, what: str, threads: int, seconds: float) -> float:
        """Return operations or bytes per second: ``"fma32"``, ``"fma64"`` or ``"read"``."""
        return self._measure(self.command, what, threads, seconds)

    def seconds(self, case: Case) -> float:
        """Return how long a case's needed work takes at the roof as it is just now."""
        kind = roof_kind(case)
        amount = case.bytes if kind == "read" else case.flops
        return amount / self.rate(kind, self.threads, BURST[kind])

    def overview(self) -> dict[str, float]:
        """Measure every roof, with one thread and with all, in giga-units per second."""
        rates = {
            f"{kind}, {n} thread{'s' * (n > 1)}": self.rate(kind, n, 0.3) * 1e-9
            for kind in BURST
            for n in sorted({1, self.threads})
        }
        if self.compiled:
            narrow = self._measure(self._narrow, "fma32", self.threads, 0.3)
            rates["fma32 without AVX-512"] = narrow * 1e-9
        rates["NumPy's sgemm"] = self._measure(GEMM, "fma32", self.threads, 0.3) * 1e-9
        return rates

    def _measure(self, command: tuple[str, ...], what: str, threads: int, seconds: float) -> float:
        rate, _ = self.quiet.measure(
            lambda: measure(command, what, threads, seconds), ended_children_time
        )
        return rate


def roof_kind(case: Case) -> str:
    """Name the measurement that bounds a case."""
    if case.roof == "bandwidth":
        return "read"
    return "fma64" if case.dtype == "float64" else "fma32"


def measure(command: tuple[str, ...], what: str, threads: int, seconds: float) -> float:
    """Run one measurement in its own process; units per second."""
    done = subprocess.run(
        [*command, what, str(threads), str(seconds)],
        check=True,
        capture_output=True,
        text=True,
        env=clean_environment(threads),
    )
    return float(done.stdout) * 1e9


def compile_roofs(target: Path, *flags: str) -> tuple[str, ...]:
    """Compile ``roofs.cpp``; the command that runs it, or NumPy's stand-in."""
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++")), None)
    if compiler is None:
        return GEMM
    arguments = [*compiler.split(), *FLAGS, *flags, str(SOURCE), "-o", str(target)]
    done = subprocess.run(arguments, check=False, capture_output=True)
    return (str(target),) if done.returncode == 0 else GEMM


def folder_for_roofs() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory, to be used as a context manager."""
    return tempfile.TemporaryDirectory(prefix="headwise-roofs-")
