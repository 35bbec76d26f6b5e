"""Ctrl-C, and signal handlers that run in the middle of a call."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal
from tests.support import draw, forced, run_script, same_bits

# Each script defines `call()`, which takes several seconds, and `brief()`.
BEGIN = """
import os, signal, sys, threading, time
import numpy as np
import headwise
from headwise import _binding

def force(name):
    _binding.instruction_set = lambda: name

usual = _binding.instruction_set()
attend, threads = headwise.scaled_dot_product_attention, int(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(1, 1, 64, 64))
brief = lambda: attend(x, x, x, headwise.causal())
want = brief()
force("scalar")
"""

END = """
sent = []

def interrupt():
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    call()
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
else:
    sys.exit("the call was not interrupted")
force(usual)
assert np.array_equal(brief(), want), "the next call is wrong"
"""

CALLS = {
    "many queries": """
y = np.broadcast_to(np.ones((1, 64), np.float32), (1, 1, 60_000, 64))
call = lambda: attend(y, y, y, num_threads=threads)
""",
    "many queries observed": """
y = np.broadcast_to(np.ones((1, 64), np.float32), (1, 1, 60_000, 64))
call = lambda: headwise.observe(y, y, y, headwise.causal(), num_threads=threads)
""",
    "few queries": """
q = np.ones((1, 4, 1, 64), np.float32)
y = np.broadcast_to(np.ones((1, 64), np.float32), (1, 4, 200_000_000, 64))
call = lambda: attend(q, y, y, num_threads=threads)
""",
    "many heads of few queries": """
q = np.broadcast_to(np.ones((1, 64), np.float32), (5000, 8, 1, 64))
y = np.broadcast_to(np.ones((1, 64), np.float32), (5000, 8, 4096, 64))
call = lambda: attend(q, y, y, num_threads=threads)
""",
    "weights": """
force(usual)
y = np.ones((1, 1, 6000, 1024), np.float32)
seen = headwise.observe(y, y, y[..., :1], statistics=(), num_threads=threads)
force("scalar")
call = seen.weights
""",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_long_call_within_half_a_second(call: str, threads: int) -> None:
    delay = float(run_script(BEGIN + CALLS[call] + END, str(threads)))
    assert delay < 0.5


@contextmanager
def alarm(handler: Callable[..., Any], seconds: float = 0.05) -> Iterator[None]:
    """Have ``handler`` called after so long."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_inside_a_signal_handler_inside_a_call(
    rng: np.random.Generator, threads: int
) -> None:
    long = draw(rng, (1, 1), (12_000, 12_000), (64, 64), dtype=np.float32)
    brief = draw(rng, (1, 2), (200, 200), (64, 64), dtype=np.float32)
    seen: list[tuple[float, Any]] = []

    def attend(inputs: Any) -> Any:
        return headwise.scaled_dot_product_attention(*inputs, causal(), num_threads=threads)

    with forced("scalar"):
        undisturbed, alone = attend(long), attend(brief)
        with alarm(lambda *_: seen.append((time.monotonic(), attend(brief)))):
            disturbed = attend(long)
        ended = time.monotonic()
    [(began, inside)] = seen
    assert began < ended - 0.02, "the call was over when the signal was handled"
    assert same_bits(disturbed, undisturbed)
    assert same_bits(inside, alone)


def test_an_error_of_a_signal_handler_comes_through(rng: np.random.Generator) -> None:
    class AlarmError(Exception):
        pass

    def handler(*_: Any) -> None:
        raise AlarmError

    inputs = draw(rng, (1, 1), (12_000, 12_000), (64, 64), dtype=np.float32)
    small = draw(rng, (1, 1), (20, 20))
    want = headwise.scaled_dot_product_attention(*small)
    with forced("scalar"), alarm(handler), pytest.raises(AlarmError):
        headwise.scaled_dot_product_attention(*inputs)
    assert same_bits(headwise.scaled_dot_product_attention(*small), want)
