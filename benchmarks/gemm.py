"""The roof where there is no C++ compiler: NumPy's own matrix product and its maximum.

``python -m benchmarks.gemm fma32|fma64|read THREADS SECONDS`` prints what ``roofs.cpp`` would: a
rate in GFLOP/s or GB/s. It is lower than the true roof, so shares of it come out too high.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

SIZE = 2048
PART = 2**27  # bytes that each thread reads


def main() -> None:
    """Measure what the arguments name."""
    what, threads, budget = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    if what == "read":
        work, amount = _reader(threads), PART * threads
    else:
        work, amount = _multiplier(np.float32 if what == "fma32" else np.float64), 2 * SIZE**3
    best, started = 0.0, perf_counter()
    while best == 0 or perf_counter() - started < budget:
        begin = perf_counter()
        work()
        best = max(best, amount / (perf_counter() - begin))
    print(f"{best * 1e-9:.3f}")


def _multiplier(dtype: Any) -> Callable[[], object]:
    matrix = np.full((SIZE, SIZE), 0.5, dtype)
    out = np.empty_like(matrix)
    return lambda: np.matmul(matrix, matrix, out=out)


def _reader(threads: int) -> Callable[[], object]:
    parts = [np.ones(PART // 8) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(np.max, parts))


if __name__ == "__main__":
    main()
