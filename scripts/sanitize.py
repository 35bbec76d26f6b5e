"""Run the kernel tests under sanitizers: addresses and undefined behaviour, then threads.

Needs nothing beyond what ``make test`` installs. Ends with 1 where a sanitizer finds anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SANITIZERS = {"address": "address,undefined", "thread": "thread"}
ROOT = Path(__file__).resolve().parent.parent


def build(name: str, flags: str) -> Path:
    """Configure and build the C++ tests with a sanitizer; return the build folder."""
    folder = ROOT / "build" / f"sanitize-{name}"
    configure = [
        "cmake",
        *("-G", "Ninja", "-S", str(ROOT), "-B", str(folder)),
        *("-D", "HEADWISE_PYTHON=OFF", "-D", "HEADWISE_TESTS=ON"),
        *("-D", f"HEADWISE_SANITIZE={flags}"),
    ]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder)], check=True)
    return folder


def main() -> int:
    """Build and run everything; return the exit code."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    failed = []
    for name, flags in SANITIZERS.items():
        folder = build(name, flags)
        for test in ("kernel_test", "pool_test"):
            print(f"{test} under {flags}", flush=True)
            if subprocess.run([folder / test], check=False).returncode:
                failed.append(f"{test} under {flags}")
    print(f"failed: {', '.join(failed)}" if failed else "all sanitizers clean")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
