"""What `import headwise` loads, and how long it takes."""

from __future__ import annotations

import json
import subprocess
import sys

SNIPPET = """
import json, sys, time
import numpy
before, started = set(sys.modules), time.process_time()
import headwise
spent = time.process_time() - started
print(json.dumps([spent, sorted({m.split(".")[0] for m in set(sys.modules) - before})]))
"""


def start() -> tuple[float, list[str]]:
    """Import headwise in a new process: CPU seconds beyond NumPy's, and the packages it loads."""
    out = subprocess.run(
        [sys.executable, "-c", SNIPPET], check=True, capture_output=True, text=True
    )
    spent, modules = json.loads(out.stdout)
    return spent, modules


def test_import_needs_numpy_alone() -> None:
    """And threadpoolctl, one small module, where it is installed: it is told of the threads."""
    _, modules = start()
    assert set(modules) - set(sys.stdlib_module_names) <= {"headwise", "numpy", "threadpoolctl"}


def test_import_is_quick() -> None:
    """CPU time, the least of several starts: what else the machine does counts little."""
    assert min(start()[0] for _ in range(5)) < 0.15
