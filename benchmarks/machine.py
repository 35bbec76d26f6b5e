"""The machine in words."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe(threads: int, roofs: dict[str, float], peers: dict[str, str]) -> dict[str, Any]:
    """Return what a reader needs to place the numbers: processor, caches, date, versions."""
    return {
        "processor": processor(),
        "cores": available_cores(),
        "caches": caches(),
        "threads": threads,
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).date().isoformat(),
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "roofs": {name: round(rate, 1) for name, rate in roofs.items()},
        "peers": peers,
    }


def in_short(about: dict[str, Any]) -> str:
    """Return in one line what `describe` tells of the processor, the threads and the date."""
    return f"{about['processor']}; {about['threads']} threads; {about['date']}"


def available_cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor() -> str:
    """Return the processor's name, family and widest vectors."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    facts = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    flags = facts.get("flags", facts.get("Features", "")).split()
    vectors = next((v for v in ("avx512f", "avx2", "asimd") if v in flags), "")
    name = facts.get("model name", platform.machine())
    family = f"family {facts['cpu family']}" if "cpu family" in facts else ""
    return ", ".join(part for part in (name, family, vectors) if part)


def caches() -> str:
    """Return the sizes of the data caches of the first core."""
    sizes = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if kind != "Instruction":
            sizes.append(f"L{level} {size}")
    return ", ".join(sizes)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return "?"
