"""Forks, and many threads at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal
from tests.support import draw, run_script, same_bits

FORK = """
import os, threading, time
import numpy as np
import headwise

rng = np.random.default_rng(0)
x = rng.normal(size=(1, 2, 600, 64)).astype(np.float32)
attend = lambda: headwise.scaled_dot_product_attention(x, x, x, headwise.causal(), num_threads=3)
observe = lambda: headwise.observe(x, x, x, headwise.causal(), num_threads=3).entropy
want, entropy = attend(), observe()

def same():
    right = np.array_equal(attend(), want) and np.array_equal(observe(), entropy)
    return right and len(os.listdir("/proc/self/task")) > 1  # and helpers are at work again

def fork_and_compute(depth=1):
    child = os.fork()
    if not child:
        right = same() and (depth == 0 or fork_and_compute(depth - 1))
        os._exit(0 if right and same() else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.01)
    os.kill(child, 9)
    return False
"""

AFTER_USE = """
assert fork_and_compute(), "the child failed"
assert same(), "the parent failed"
"""

DURING_A_CALL = """
stop = []

def busy():
    while not stop:
        attend()

threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
results = [fork_and_compute(0) for _ in range(5)]
stop.append(True)
for thread in threads:
    thread.join()
assert all(results), results
assert same(), "the parent failed"
"""


@pytest.mark.parametrize("script", [AFTER_USE, DURING_A_CALL], ids=["after use", "during a call"])
def test_fork(script: str) -> None:
    run_script("import warnings; warnings.simplefilter('ignore')\n" + FORK + script, timeout=150)


DAEMON = """
import threading, time
import numpy as np
import headwise

y = np.broadcast_to(np.ones((1, 64), np.float32), (1, 1, 300_000, 64))
call = lambda: headwise.scaled_dot_product_attention(y, y, y, num_threads=2)
threading.Thread(target=call, daemon=True).start()
time.sleep(0.2)
print("end")
"""


def test_a_process_ends_while_a_daemon_thread_computes() -> None:
    assert run_script(DAEMON, timeout=10).strip() == "end"


def test_sixteen_threads_at_once(rng: np.random.Generator) -> None:
    problems = [
        draw(rng, (1, 2), (length, length), (32, 16), dtype=dtype)
        for length in (1, 5, 40, 150, 400, 401, 402, 403)
        for dtype in ("float32", "float64")
    ]

    def solve(inputs: Any) -> tuple[Any, Any]:
        seen = headwise.observe(*inputs, causal(), num_threads=2)
        plain = headwise.scaled_dot_product_attention(*inputs, causal(), num_threads=2)
        return plain, seen.entropy

    want = [solve(problem) for problem in problems]
    start = threading.Barrier(16)

    def solve_all(first: int) -> bool:
        start.wait()
        order = [*range(first, 16), *range(first)]
        return all(
            same_bits(got, right)
            for k in order
            for got, right in zip(solve(problems[k]), want[k], strict=True)
        )

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(solve_all, range(16)))


def test_more_threads_than_work(rng: np.random.Generator) -> None:
    inputs = draw(rng, (1, 1), (100, 2000), (64, 64))
    one = headwise.scaled_dot_product_attention(*inputs, num_threads=1)
    assert same_bits(headwise.scaled_dot_product_attention(*inputs, num_threads=64), one)
