"""The main process's side of the workers: start, ask, stop."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Any, Self

from benchmarks import protocol

HARMFUL = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # make NumPy's BLAS take another processor's
COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "HEADWISE_NUM_THREADS")
SETTLE = 0.03  # seconds in which a worker's threads stop spinning and go to sleep


def clean_environment(threads: int) -> dict[str, str]:
    """Return the environment of workers: the same number of threads, NumPy's BLAS as it comes."""
    kept = {k: v for k, v in os.environ.items() if k not in HARMFUL}
    return {**kept, **dict.fromkeys(COUNTS, str(threads)), "TF_CPP_MIN_LOG_LEVEL": "3"}


class WorkerError(Exception):
    """A worker answered with something other than a result; ``status`` says which."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class Process:
    """A worker process, used as a context manager."""

    def __init__(self, peer: str, threads: int) -> None:
        self.peer = peer
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", peer, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=clean_environment(threads),
        )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def ask(self, request: str, argument: object = None) -> Any:
        """Send a request, wait for the reply, let the worker's threads fall asleep.

        Raises
        ------
        WorkerError
            Where the reply is no result, or the process died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((request, argument), self._process.stdin)
            self._process.stdin.flush()
            status, value = pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            raise WorkerError(protocol.FAILED, self._last_words()) from None
        if status != protocol.OK:
            raise WorkerError(status, value)
        time.sleep(SETTLE)
        return value

    def _last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"the process ended with {code}" + (f": {lines[-1][:200]}" if lines else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if not self._errors.closed:
            self._process.kill()
            self._process.communicate()
            self._errors.close()
