"""What a call gave: an array or something else, an error, and what was watched on the way."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headwise.conformance.cases import Array, Call, Case, NotOfferedError, dtype_of

ATTENTION = "scaled_dot_product_attention"
LARGEST = 1 << 20  # a result of more numbers is told by its shape alone


@dataclass
class Outcome:
    """What one case's call gave.

    ``kind``: "array", "list", "tuple", "nothing" or "other" (a result), "law" (``note`` says how it
    was broken), "raised", "refused" (an error of a kind that says no), "not offered", "timed out",
    "crashed", "exited" or "not run". ``where`` is the place of an error.
    """

    kind: str
    note: str = ""
    array: Array | None = None
    shape: tuple[int, ...] | None = None
    changed: list[str] = field(default_factory=list)  # inputs that are not what they were
    calls: int | None = None  # of scaled_dot_product_attention, where counted
    is_view: bool | None = None
    where: str = ""

    def pack(self) -> dict[str, Any]:
        """Return the outcome as JSON has it."""
        data = asdict(self)
        if self.array is not None:
            data["array"] = {
                "dtype": str(self.array.dtype),
                "bytes": base64.b64encode(np.ascontiguousarray(self.array).tobytes()).decode(),
            }
        return data

    @classmethod
    def unpack(cls, data: dict[str, Any]) -> Outcome:
        """Return the outcome that `pack` described."""
        shape = None if data["shape"] is None else tuple(data["shape"])
        if data["array"] is not None:
            raw = base64.b64decode(data["array"]["bytes"])
            array = np.frombuffer(raw, dtype_of(data["array"]["dtype"])).reshape(shape)
            data = {**data, "array": array}
        return cls(**{**data, "shape": shape})


@dataclass
class Target:
    """An implementation: its functions by name, and where they look one another up."""

    functions: dict[str, Callable[..., Any]]
    run: Callable[[Call], Any]
    holder: Any = None  # module or object whose attribute calls of attention go through
    refusals: tuple[type[BaseException], ...] = (ValueError, TypeError)
    about: str = ""
    file: str | None = ""  # whose lines are named where it raises; None names none

    @property
    def counts_calls(self) -> bool:
        """Whether both functions are there, so that calls can be counted."""
        return self.holder is not None and callable(getattr(self.holder, ATTENTION, None))


def invoke(target: Target, case: Case, call: Call | None = None) -> Outcome:
    """Run one case's call and say what came of it; ``call`` is the case's, already made."""
    try:
        if case.function not in target.functions:
            raise NotOfferedError(f"has no {case.function}")
        if "one call" in case.also and not target.counts_calls:
            raise NotOfferedError(f"has no {ATTENTION} of its own whose calls could be counted")
        if "law" in case.expected:
            from headwise.conformance.laws import LAWS

            return Outcome("law", LAWS[case.expected["law"]](target.run, case))
        return _watched(target, case, call or case.call())
    except NotOfferedError as error:
        return Outcome("not offered", str(error))
    except SystemExit as error:
        return Outcome("exited", f"SystemExit({error.code!r})", where=place(error, target.file))
    except BaseException as error:
        kind = "refused" if isinstance(error, target.refusals) else "raised"
        note = f"{type(error).__name__}: {error}".strip(": ")
        return Outcome(kind, _short(note), where=place(error, target.file))


def _watched(target: Target, case: Case, call: Call) -> Outcome:
    before = {name: array.copy() for name, array in call.arrays().items()}
    with _counted(target.holder, "one call" in case.also) as calls:
        outcome = _describe(target.run(call))
    outcome.changed = [n for n, x in call.arrays().items() if x.tobytes() != before[n].tobytes()]
    outcome.calls = calls[0] if "one call" in case.also else None
    if "view" in case.also and outcome.array is not None:
        outcome.is_view = bool(np.shares_memory(outcome.array, call.inputs["x"]))
    return outcome


@contextmanager
def _counted(holder: Any, wanted: bool) -> Iterator[list[int]]:
    """Count calls of the holder's attention while inside."""
    calls = [0]
    if not wanted:
        yield calls
        return
    real = getattr(holder, ATTENTION)

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return real(*args, **kwargs)

    setattr(holder, ATTENTION, counting)
    try:
        yield calls
    finally:
        setattr(holder, ATTENTION, real)


def _describe(result: Any) -> Outcome:
    """Say what a function returned; an array of any library becomes NumPy's."""
    if result is None:
        return Outcome("nothing", "it returned None")
    if isinstance(result, list | tuple):
        kind = "list" if isinstance(result, list) else "tuple"
        parts = ", ".join(type(x).__name__ for x in result[:3])
        what = f"it returned a {kind} of {len(result)}: {parts}"
        return Outcome(kind, what)
    array = as_numpy(result)
    if array is None:
        return Outcome("other", f"it returned a {type(result).__name__}")
    if array.size > LARGEST:
        return Outcome("array", shape=array.shape, note=str(array.dtype))
    return Outcome("array", array=array, shape=array.shape)


def as_numpy(x: Any) -> Array | None:
    """Return an array of any library as NumPy's, or None for what is no array."""
    if isinstance(x, np.ndarray):
        return x
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        if str(x.dtype) == "torch.bfloat16":
            return x.float().numpy().astype(dtype_of("bfloat16"))
        return np.asarray(x.numpy())
    if isinstance(x, np.generic | float | int) or hasattr(x, "__array__"):
        return np.asarray(x)
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") else None


def place(error: BaseException, file: str | None) -> str:
    """Return ``file.py:line`` of the deepest frame in the target's file; else of the last frame."""
    if file is None:
        return ""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file and frame.filename == file]
    frame = own[-1] if own else frames[-1] if frames and file == "" else None
    return f"{Path(frame.filename).name}:{frame.lineno}" if frame else ""


def _short(text: str, most: int = 300) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
