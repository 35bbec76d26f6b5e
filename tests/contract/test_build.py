"""Without a compiler, one sentence says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent  # of the environment, where there is CMake but no compiler
    command = [str(tools / "cmake"), "-G", "Ninja", "-S", str(ROOT), "-B", str(tmp_path / "build")]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": str(tools)}
    )
    assert result.returncode != 0
    assert "found no C++ compiler: install g++ 12 or newer" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
