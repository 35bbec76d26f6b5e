"""A target that loops, crashes, exits or shouts costs its own case and no other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwise import conformance
from headwise.conformance import TargetError
from headwise.conformance.report import Report
from tests.conformance.right import FOUR_LINES

CASES = ["attention/one-key", "attention/scale", "attention/rank-2", "attention/rank-3"]
Check = Callable[..., Report]

# What the function does at its first call with more than one key; the other calls are right.
MISDEEDS = {
    "while True: pass": ("timed out", "took more than 0.5 s"),
    "import time; time.sleep(60)": ("timed out", "took more than 0.5 s"),
    "import os; os._exit(3)": ("exited", "exited with code 3"),
    "import sys; sys.exit('enough')": ("exited", "SystemExit('enough')"),
    "import ctypes; ctypes.string_at(0)": ("crashed", "SIGSEGV"),
    "import os; os.abort()": ("crashed", "SIGABRT"),
    "import os; os.closerange(3, 99)": ("exited", "its process exited"),
    "raise KeyError('q')": ("raised", "KeyError: 'q'"),
    "raise KeyboardInterrupt": ("raised", "KeyboardInterrupt"),
    "return None": ("nothing", "it returned None, expected an array"),
    "return [[1.0]]": ("list", "it returned a list of 1"),
    "return 'text'": ("other", "it returned a str"),
    "return np.zeros((2, 3))": ("array", "shape (2, 3), expected"),
    "return np.zeros(10**7)": ("array", "shape (10000000,), expected"),
    "return np.array(['a'] * 16).reshape(2, 2, 2, 2)": ("array", "shape (2, 2, 2, 2)"),
    "return np.full((2, 2), 'a')": ("array", "shape (2, 2)"),
    "return np.zeros(1 << 40)": ("raised", "emory"),
    "return scaled_dot_product_attention(query, key, value)": ("raised", "RecursionError"),
}


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def run(
        body: str, only: list[str] = CASES, source: str = FOUR_LINES, timeout: float = 0.5
    ) -> Report:
        lines = f"    if key.shape[-2] > 1 and query.ndim == 4:\n        {body}\n    scores = query"
        path = tmp_path / "target.py"
        path.write_text(source.replace("    scores = query", lines, 1))
        return conformance.check(str(path), only=only, timeout=timeout)

    return run


@pytest.mark.parametrize("body", MISDEEDS)
def test_one_case_fails_and_the_others_go_on(body: str, check: Check) -> None:
    report = check(body)
    kind, words = MISDEEDS[body]
    outcomes = {r.case.name: r for r in report.results}
    bad = outcomes["attention/scale"]
    assert bad.outcome.kind == kind
    assert words in bad.verdict.why
    assert bad.verdict.status == "fail"
    assert [outcomes[name].verdict.status for name in CASES if name != "attention/scale"] == [
        "pass"
    ] * 3


@pytest.mark.parametrize(
    "noise",
    [
        "print('x' * 10**7)",
        "import os; os.write(1, b'{\"kind\": 1}\\n'); os.write(2, b'\\xff' * 10**6)",
        "import subprocess; subprocess.run(['echo', 'hello'])",
        "import warnings; warnings.warn('careful')",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdin.read()",
    ],
)
def test_noise_does_no_harm(noise: str, check: Check) -> None:
    assert check(noise, timeout=5).ok


def test_a_function_that_always_hangs_is_given_up(check: Check, tmp_path: Path) -> None:
    started = time.perf_counter()
    report = check("while True: pass", only=["attention"], timeout=0.3)
    assert time.perf_counter() - started < 10
    assert sum(r.outcome.kind == "timed out" for r in report.results) == 3
    assert report.of("not run")
    assert not report.ok


def test_last_words_are_told(check: Check) -> None:
    report = check("print('goodbye', flush=True); import os; os._exit(1)")
    assert "it printed: goodbye" in report.of("fail")[0].verdict.why


def test_the_line_of_an_error_is_told(check: Check) -> None:
    report = check("raise KeyError('q')")
    assert report.of("fail")[0].outcome.where == "target.py:6"


def test_calls_are_counted_and_the_module_is_left_as_it_was(check: Check) -> None:
    assert check("pass", only=["per-head"]).ok


LOADS = {
    "import nothing_of_that_name": "ModuleNotFoundError: No module named 'nothing_of_that_name'",
    "def f(:": "SyntaxError",
    "raise SystemExit(2)": "SystemExit: 2",
    "1 / 0": "ZeroDivisionError: division by zero (target.py:1)",
    "import os; os._exit(4)": "exited with code 4",
    "x = 1": "has none of split_heads",
    "input()": "EOFError",
}


@pytest.mark.parametrize("source", LOADS)
def test_a_file_that_cannot_be_loaded(source: str, tmp_path: Path) -> None:
    path = tmp_path / "target.py"
    path.write_text(source + "\n")
    with pytest.raises(TargetError) as caught:
        conformance.check(str(path), only=["split"])
    assert LOADS[source] in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_file_may_import_its_neighbours_and_have_a_common_name(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(FOUR_LINES)
    (tmp_path / "copy.py").write_text("from helper import *\n")
    assert conformance.check(str(tmp_path / "copy.py"), core=True, only=["split", "per-head"]).ok


def test_one_function_by_name_and_by_role(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FOUR_LINES.replace("scaled_dot_product_attention", "attend").replace(
        "split_heads", "cut"))  # fmt: skip
    check = conformance.check
    assert check(f"{path}:attend", core=True, only=["attention"]).functions == (
        "scaled_dot_product_attention",
    )
    assert check(f"{path}:cut", core=True, only=["split"]).ok
    assert check(f"{path}:cut", core=True, only=["split"], function="split_heads").ok
    with pytest.raises(TargetError, match="nothing is not there; functions there: attend, cut"):
        check(f"{path}:nothing")


def test_no_process_is_left_and_memory_is_bounded(check: Check) -> None:
    before = _children()
    report = check("np.ones(10**10)")
    assert "MemoryError" in report.of("fail")[0].verdict.why
    assert _children() == before


def _children() -> set[str]:
    out = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return {line.split()[0] for line in out.splitlines() if "conformance.worker" in line}


def test_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(
        FOUR_LINES.replace("    scores = query", "    while True: pass\n    scores = query", 1)
    )
    command = [sys.executable, "-m", "headwise.cli", "check", str(path), "--only", "attention"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(2)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (130, "", "headwise: interrupted\n")
