"""How many threads a call may use, and why."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from headwise._numbers import whole_number

_chosen: int | None = None


_MOST = 1024  # more threads than any machine here has; asking for more is no error


def check_num_threads(n: Any, name: str = "num_threads") -> int:
    """Return ``n`` where it is a thread count; raise where it is not."""
    return min(whole_number(name, n, least=1), _MOST)


def set_num_threads(n: int | None) -> None:
    """Set how many threads later calls use; None goes back to the default.

    ``threadpoolctl.threadpool_limits`` does the same for as long as it lasts, where threadpoolctl
    is installed.

    Examples
    --------
    >>> import headwise
    >>> headwise.set_num_threads(1)
    >>> headwise.get_num_threads()
    1
    >>> headwise.set_num_threads(None)
    """
    global _chosen  # noqa: PLW0603 - the one setting of the process
    _chosen = None if n is None else check_num_threads(n, "n")


def get_num_threads() -> int:
    """Return how many threads a call uses that does not say ``num_threads=``.

    The first of these that is set: `set_num_threads`, the environment variables
    ``HEADWISE_NUM_THREADS`` and ``OMP_NUM_THREADS``, the processors this process may use (affinity
    and the control group's quota).
    """
    return _default()[0] if _chosen is None else _chosen


def explain_num_threads() -> str:
    """Say in a few words where `get_num_threads` comes from."""
    return _default()[1] if _chosen is None else "set by headwise.set_num_threads or threadpoolctl"


@cache
def _default() -> tuple[int, str]:
    for variable in ("HEADWISE_NUM_THREADS", "OMP_NUM_THREADS"):
        count = _read_count(os.environ.get(variable, ""))
        if count:
            return count, f"the environment variable {variable}"
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    quota = _cgroup_quota()
    if quota and quota < cores:
        return quota, "the control group's CPU quota"
    return cores, "the processors this process may use"


def _read_count(text: str) -> int | None:
    """Read the first number of a list like OMP_NUM_THREADS'; None where there is none."""
    first = text.split(",", maxsplit=1)[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def _cgroup_quota() -> int | None:
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, round(int(quota) / int(period)))
    except (OSError, ValueError):
        return None
