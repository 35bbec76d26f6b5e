"""No code of one instruction set can be linked into another: the objects share no weak symbols."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETS = {"baseline": ("simd_portable.hpp", [])}
if platform.machine() in {"x86_64", "AMD64"}:
    SETS["avx2"] = ("simd_avx2.hpp", ["-mavx2", "-mfma", "-mf16c"])


@pytest.mark.parametrize("name", SETS)
def test_an_object_defines_its_table_and_nothing_else(name: str, tmp_path: Path) -> None:
    header, flags = SETS[name]
    target = tmp_path / "kernels.o"
    command = ["c++", "-std=c++20", "-O1", *flags, f"-I{ROOT / 'cpp'}"]
    command += [f"-DHEADWISE_TABLE={name}", f'-DHEADWISE_SIMD="{header}"']
    subprocess.run([*command, "-c", ROOT / "cpp" / "kernels.cpp", "-o", target], check=True)
    listing = subprocess.run(
        ["nm", "--defined-only", "--extern-only", target],
        check=True,
        capture_output=True,
        text=True,
    )
    symbols = [line.split()[-1] for line in listing.stdout.splitlines() if line.strip()]
    assert len(symbols) == 1
    assert f"kernels_{name}" in symbols[0]
