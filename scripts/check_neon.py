"""Build the kernel tests for 64-bit Arm with a cross compiler and run them under emulation.

On Debian: ``apt-get install g++-aarch64-linux-gnu qemu-user``. Correctness only: emulation says
nothing about speed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"


def main() -> int:
    """Build, run, and return the exit code."""
    missing = [tool for tool in (COMPILER, EMULATOR) if shutil.which(tool) is None]
    if missing:
        print(f"missing {' and '.join(missing)}: apt-get install g++-aarch64-linux-gnu qemu-user")
        return 1
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    folder = ROOT / "build" / "neon"
    configure = [
        "cmake",
        *("-G", "Ninja", "-S", str(ROOT), "-B", str(folder)),
        *("-D", "CMAKE_SYSTEM_NAME=Linux", "-D", "CMAKE_SYSTEM_PROCESSOR=aarch64"),
        *("-D", f"CMAKE_CXX_COMPILER={COMPILER}", "-D", "CMAKE_EXE_LINKER_FLAGS=-static"),
        *("-D", "HEADWISE_PYTHON=OFF", "-D", "HEADWISE_TESTS=ON"),
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "--target", "kernel_test"], check=True)
    return subprocess.run([EMULATOR, folder / "kernel_test"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
