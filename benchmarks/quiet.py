"""Repeats what was measured while other programs used the processor, as long as patience lasts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
Clock = Callable[[], float]  # processor seconds used so far

ALLOWED = 0.15  # cores that other programs may use
PAUSE = 0.5  # seconds between looks


class Quiet:
    """Watches the machine's processor time; ``patience`` is the seconds to wait in a whole run."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    def measure(self, action: Callable[[], Value], own: Clock) -> tuple[Value, bool]:
        """Run ``action`` undisturbed; ``own`` tells the time that it uses itself.

        Returns its value, and whether nobody disturbed it.
        """
        while True:
            value, others = watch(action, own)
            if others <= ALLOWED:
                return value, True
            if self.patience <= 0:
                return value, False
            self._wait()

    def _wait(self) -> None:
        others = 1.0
        while others > ALLOWED and self.patience > 0:
            _, others = watch(lambda: time.sleep(PAUSE), lambda: 0.0)
            self.patience -= PAUSE


def watch(action: Callable[[], Value], own: Clock) -> tuple[Value, float]:
    """Run ``action``; return its value and how many cores others used meanwhile."""
    began, busy, mine = time.perf_counter(), machine_time(), own() + this_time()
    value = action()
    others = machine_time() - busy - (own() + this_time() - mine)
    return value, others / (time.perf_counter() - began)


def machine_time() -> float:
    """Return the processor seconds used by everyone; 0 where the system does not tell."""
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(int, line.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def process_time(pid: int) -> float:
    """Return the processor seconds that a process used; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return 0.0
    user, system = map(int, text.rpartition(")")[2].split()[11:13])
    return (user + system) / os.sysconf("SC_CLK_TCK")


def this_time() -> float:
    """Return the processor seconds that this process used."""
    return sum(os.times()[:2])


def ended_children_time() -> float:
    """Return the processor seconds that ended children of this process used."""
    return sum(os.times()[2:4])
