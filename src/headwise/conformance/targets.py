"""What is checked: a file, a module, one function of either, or a named library."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from headwise.conformance import backends
from headwise.conformance.calls import parameters_of, run_function
from headwise.conformance.cases import FUNCTIONS, Call
from headwise.conformance.outcome import Target, place


class TargetError(Exception):
    """The target cannot be checked at all; the text says why and what to do."""


def load_target(text: str, role: str | None = None, arrays: str = "numpy") -> Target:
    """Load what is to be checked.

    Parameters
    ----------
    text
        ``file.py``, ``file.py:function``, ``module``, ``module:function`` or a library's name.
    role
        Which of the four functions a single function is; None is by its name or its parameters.
    arrays
        What a Python function is given: "numpy", "torch" or "jax" arrays.

    Raises
    ------
    TargetError
        Where there is no such target, its import fails, or it has none of the functions.
    """
    if text in backends.BACKENDS:
        return _load_backend(text)
    place_text, _, name = text.partition(":")
    is_file = place_text.endswith(".py")
    module = _import_file(Path(place_text)) if is_file else _import_module(place_text)
    functions = {_role(f, role): f for f in [_find(module, name)]} if name else _known(module)
    if not functions:
        raise TargetError(
            f"{place_text} has none of {', '.join(FUNCTIONS)}: name the function to check, as in "
            f"{place_text}:my_attention"
        )
    convert = converter(arrays)
    run = partial(_run, functions, convert)
    refusals: backends.Refusals = (ValueError, TypeError, *backends.refusals_of(arrays))
    file = str(getattr(module, "__file__", "") or "")
    return Target(
        functions, run, _home(functions, module), refusals, f"{text} ({', '.join(functions)})", file
    )


def _home(functions: dict[str, Callable[..., Any]], module: Any) -> Any:
    """Return the module in which the heads' call looks up the attention."""
    call = functions.get("multi_head_attention_per_head")
    return sys.modules.get(getattr(call, "__module__", None) or "", module)


def _run(functions: dict[str, Callable[..., Any]], convert: Any, call: Call) -> Any:
    return run_function(functions[call.function], call, convert)


def _load_backend(name: str) -> Target:
    try:
        return backends.load(name)
    except ImportError as error:
        missing = error.name or name
        packages = " ".join(backends.BACKENDS[name].packages)
        raise TargetError(
            f"{name} needs {missing}, which is not installed: pip install {packages}"
        ) from None


def _import_file(path: Path) -> Any:
    if not path.is_file():
        raise TargetError(f"{path} does not exist: give the path of a Python file")
    path = path.resolve()
    name = path.stem if path.stem not in sys.modules else f"headwise_target_{path.stem}"
    sys.path.insert(0, str(path.parent))  # as `python file.py` does
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _guarded(partial(spec.loader.exec_module, module), path.name, str(path))
    return module


def _import_module(name: str) -> Any:
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    if not all(part.isidentifier() for part in name.split(".")):
        known = ", ".join(backends.BACKENDS)
        raise TargetError(
            f"{name} is no module, no file that ends in .py and no library known here ({known})"
        )
    try:
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(name=name)
    except ModuleNotFoundError as error:
        raise TargetError(
            f"found no module {error.name or name}: give a module, a file that ends in .py, or one "
            f"of {', '.join(backends.BACKENDS)}"
        ) from None
    except ImportError as error:
        raise TargetError(f"{name} cannot be imported: {error}") from None
    return _guarded(partial(importlib.import_module, name), name, "")


def _guarded(load: Callable[[], Any], what: str, file: str) -> Any:
    """Import, and tell any failure in one line with the target's own file and line."""
    try:
        return load()
    except BaseException as error:
        at = place(error, file)
        text = " ".join(str(error).split())
        kind = type(error).__name__
        raise TargetError(
            f"{what} cannot be imported: {kind}: {text}{f' ({at})' if at else ''}"
        ) from None


def _find(module: Any, dotted: str) -> Callable[..., Any]:
    thing = module
    for name in dotted.split("."):
        if not hasattr(thing, name):
            there = [n for n in vars(thing) if not n.startswith("_") and callable(vars(thing)[n])]
            raise TargetError(f"{dotted} is not there; functions there: {', '.join(there) or '-'}")
        thing = getattr(thing, name)
    if not callable(thing) or inspect.isclass(thing):
        raise TargetError(f"{dotted} is no function, got {type(thing).__name__}")
    return thing  # type: ignore[no-any-return]


def _known(module: Any) -> dict[str, Callable[..., Any]]:
    found = {name: getattr(module, name, None) for name in FUNCTIONS}
    return {name: f for name, f in found.items() if callable(f)}


def _role(function: Callable[..., Any], role: str | None) -> str:
    """Return which of the four functions this is: as said, by its name, or by its parameters."""
    if role is not None:
        return role
    name = getattr(function, "__name__", "")
    if name in FUNCTIONS:
        return name
    names = parameters_of(function) or set()
    heads = bool(names & {"num_heads", "n_heads", "heads", "h", "nheads"})
    if len(names) == 1:
        return "combine_heads"
    if heads:
        return "split_heads" if len(names) == 2 else "multi_head_attention_per_head"
    return "scaled_dot_product_attention"


def converter(arrays: str) -> Callable[[Any], Any]:
    """Return what turns NumPy's arrays into those a function takes."""
    if arrays == "numpy":
        return lambda x: x
    try:
        return backends.converter(arrays)
    except ImportError:
        raise TargetError(f"--arrays {arrays} needs {arrays}: pip install {arrays}") from None
