"""Run the kernels under sanitizers: addresses and undefined behaviour, then threads.

First the tests in C++, then those of the Python suite that reach the kernels, with the extension
built for the sanitizer. Needs nothing beyond what ``make test`` installs. Ends with 1 where a
sanitizer or a test finds anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SANITIZERS = {"address": "address,undefined", "thread": "thread"}
LIBRARIES = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
ROOT = Path(__file__).resolve().parent.parent
KERNEL_PART = (
    "tests/laws",
    "tests/unit/test_binding.py",
    "tests/unit/test_cache.py",
    "tests/unit/test_observation.py",
    "tests/unit/test_rectangles.py",
)
# Left out: what measures time or memory, which sanitizers change, and forks, which they forbid.
LEFT_OUT = ("test_memory", "test_interruption", "test_processes", "test_far_memory", "test_fork")
# The thread sanitizer sees every access: what runs threads suffices.
THREADED = "thread or bits or document or padding or agree"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter keeps what it has until it ends
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"suppressions={ROOT / 'scripts' / 'tsan.supp'}",
    "OPENBLAS_NUM_THREADS": "1",
    "HEADWISE_EXAMPLES": "150",
    "PYTHONMALLOC": "malloc",  # so that reads beyond an array are seen
}


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


def install(name: str, flags: str) -> Path:
    """Build the extension with a sanitizer; return the folder it is installed in."""
    site = ROOT / "build" / f"sanitize-{name}-python"
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"),
        *("--upgrade", "--target", str(site), f"-Cbuild-dir={site}-build"),
        *(f"-Ccmake.define.HEADWISE_SANITIZE={flags}", "-Ccmake.build-type=RelWithDebInfo"),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    return site


def run_python(name: str, site: Path) -> int:
    """Run the Python suite's kernel part in an interpreter that loads the sanitizer first."""
    paths = [
        subprocess.run(
            [os.environ.get("CXX", "c++"), f"-print-file-name={library}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for library in LIBRARIES[name]
    ]
    environment = os.environ | OPTIONS
    environment |= {"LD_PRELOAD": ":".join(paths), "PYTHONPATH": str(site)}
    chosen = " and ".join(f"not {left_out}" for left_out in LEFT_OUT)
    if name == "thread":
        chosen += f" and ({THREADED})"
    command = [sys.executable, "-m", "pytest", "-k", chosen, "-p", "no:cacheprovider", *KERNEL_PART]
    return subprocess.run(command, check=False, env=environment, cwd=ROOT).returncode


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
        print(f"the Python suite's kernel part under {flags}", flush=True)
        if run_python(name, install(name, flags)):
            failed.append(f"the Python suite under {flags}")
    print(f"failed: {', '.join(failed)}" if failed else "all sanitizers clean")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
