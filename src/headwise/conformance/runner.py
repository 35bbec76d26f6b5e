"""Runs cases in a worker process, each under a limit of time; a worker that dies is replaced."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from headwise.conformance.cases import Case
from headwise.conformance.outcome import Outcome
from headwise.conformance.targets import TargetError

START_FACTOR = 6  # loading may take so many times the limit of one case
LEAST_START = 10.0
GIVE_UP = 3  # deaths of the worker in one function, after which its other cases are not run
TAIL = 2000  # characters of the target's own output that are kept


@dataclass(frozen=True)
class Settings:
    """How a target is run: limits of seconds for each case and of GiB, and what it is given."""

    target: str
    role: str | None = None
    arrays: str = "numpy"
    timeout: float = 10.0
    memory_gib: float = 4.0

    @property
    def start_timeout(self) -> float:
        """Seconds that loading the target may take."""
        return max(LEAST_START, START_FACTOR * self.timeout)


class WorkerGoneError(Exception):
    """The worker ended, or had to be ended; the outcome says how."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.note)
        self.outcome = outcome


class Worker:
    """One process with the target loaded."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._buffer = b""
        self._tail = b""
        self._start()
        try:
            self.hello = self._load()
        except BaseException:
            self.end()
            raise

    def _start(self) -> None:
        (its_requests, requests), (answers, its_answers) = os.pipe(), os.pipe()
        command = [sys.executable, "-P", "-m", "headwise.conformance.worker"]
        self._process = subprocess.Popen(
            [*command, str(its_requests), str(its_answers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(its_requests, its_answers),
            start_new_session=True,
            env=_environment(),
        )
        os.close(its_requests)
        os.close(its_answers)
        self._requests, self._answers = requests, answers
        self._drain = threading.Thread(target=self._drain_output, daemon=True)
        self._drain.start()

    def _drain_output(self) -> None:
        """Read whatever the target prints, and keep its end."""
        stream = self._process.stdout
        assert stream is not None
        while more := os.read(stream.fileno(), 1 << 16):
            self._tail = (self._tail + more)[-TAIL:]

    def _load(self) -> dict[str, Any]:
        s = self.settings
        message = {**vars(s), "start_timeout": s.start_timeout}
        try:
            self._send(json.dumps(message))
            hello = self._receive(s.start_timeout)
        except WorkerGoneError as gone:
            raise TargetError(f"{s.target} cannot be loaded: {gone}{self.last_words()}") from None
        if "error" in hello:
            raise TargetError(hello["error"])
        return hello

    def ask(self, case: Case) -> Outcome:
        """Run one case; a `WorkerGoneError` where the worker is lost with it."""
        self._send(case.name)
        return Outcome.unpack(self._receive(self.settings.timeout))

    def _send(self, line: str) -> None:
        try:
            os.write(self._requests, line.encode() + b"\n")
        except BrokenPipeError:
            raise self._gone() from None

    def _receive(self, timeout: float) -> dict[str, Any]:
        end = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise WorkerGoneError(Outcome("timed out", f"took more than {timeout:g} s"))
            more = os.read(self._answers, 1 << 16)
            if not more:
                raise self._gone()
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return json.loads(line)  # type: ignore[no-any-return]
        except ValueError:
            raise WorkerGoneError(Outcome("crashed", "its process sent nonsense")) from None

    def _gone(self) -> WorkerGoneError:
        try:
            code = self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return WorkerGoneError(Outcome("crashed", "its process closed its pipes"))
        if code < 0:
            name = signal.Signals(-code).name
            return WorkerGoneError(Outcome("crashed", f"its process was ended by {name}"))
        return WorkerGoneError(Outcome("exited", f"its process exited with code {code}"))

    def last_words(self) -> str:
        """Return the last line that the target printed, to stand in brackets."""
        self._drain.join(timeout=0.2)
        lines = self._tail.decode(errors="replace").split("\n")
        last = [line.strip() for line in lines if line.strip()][-1:]
        return f" (it printed: {last[0][:200]})" if last else ""

    def end(self) -> None:
        """End the process, and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join(timeout=1)
        assert self._process.stdout is not None
        self._process.stdout.close()
        for pipe in (self._requests, self._answers):
            os.close(pipe)


def _environment() -> dict[str, str]:
    """Let the worker find headwise where this process did."""
    home = str(Path(__file__).resolve().parents[2])
    paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    more = [] if home in paths or home in _site() else [home]
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *more]), "PYTHONUNBUFFERED": "1"}


def _site() -> list[str]:
    import site

    return [str(Path(p).resolve()) for p in (*site.getsitepackages(), site.getusersitepackages())]


class Session:
    """A target under test: a worker, replaced where it dies. Use it with ``with``."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.deaths: Counter[str] = Counter()
        self._worker: Worker | None = Worker(settings)
        self.about = str(self._worker.hello["about"])
        self.functions = list(self._worker.hello["functions"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.end()
        self._worker = None

    def run(
        self, cases: Iterable[Case], progress: Callable[[Case], None] = lambda _: None
    ) -> Iterator[tuple[Case, Outcome]]:
        """Run cases one by one."""
        for case in cases:
            progress(case)
            yield case, self._outcome(case)

    def _outcome(self, case: Case) -> Outcome:
        if case.function not in self.functions:
            return Outcome("not offered", f"has no {case.function}")
        if self.deaths[case.function] >= GIVE_UP:
            return Outcome("not run", f"{case.function} timed out or crashed {GIVE_UP} times")
        try:
            self._worker = self._worker or Worker(self.settings)
            return self._worker.ask(case)
        except WorkerGoneError as gone:
            assert self._worker is not None
            if gone.outcome.kind != "timed out":
                gone.outcome.note += self._worker.last_words()
            self.deaths[case.function] += 1
            self.close()
            return gone.outcome
