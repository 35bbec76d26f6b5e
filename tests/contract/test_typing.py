"""A user's file type-checks strictly, and the stub of the extension is true."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from headwise._binding import _kernel

USERS_FILE = """
import numpy as np
import headwise

x = np.zeros((2, 4, 9, 8), dtype=np.float32)
y = headwise.scaled_dot_product_attention(x, x, x, headwise.causal(), num_threads=1)
shape: tuple[int, ...] = y.shape
seen = headwise.observe(x, x, x, statistics=("entropy", headwise.statistics.first_weight(4)))
n: int = headwise.get_num_threads()
heads = headwise.split_heads(np.zeros((2, 9, 32)), 4)
together: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = headwise.combine_heads(heads)
layer = headwise.MultiHeadAttention(*[np.eye(8)] * 4, num_heads=2)
"""


def run_mypy(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=path.parent)


def test_a_users_file_checks_strictly(tmp_path: Path) -> None:
    path = tmp_path / "users_file.py"
    path.write_text(USERS_FILE)
    result = run_mypy(path)
    assert result.returncode == 0, result.stdout


def test_a_wrong_file_does_not(tmp_path: Path) -> None:
    path = tmp_path / "users_file.py"
    path.write_text(USERS_FILE + 'headwise.set_num_threads("two")\n')
    assert 'incompatible type "str"' in run_mypy(path).stdout


def test_the_stub_is_true(tmp_path: Path) -> None:
    """The stub names the same functions and arguments as the one made from the module."""
    made = tmp_path / "made.pyi"
    command = ["-m", "nanobind.stubgen", "-m", "headwise._binding._kernel", "-o", str(made)]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    ours = Path(inspect.getfile(_kernel)).with_name("_kernel.pyi")
    assert _signatures(ours) == _signatures(made)


def _signatures(path: Path) -> dict[str, int]:
    import ast

    tree = ast.parse(path.read_text())
    return {
        node.name: len(node.args.args) + len(node.args.posonlyargs)
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
    }
