"""How a plain Python function is called: which of a case's options it takes, and by what names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from headwise._mask_kinds import Band, Both, Dense, Lengths, operands
from headwise.conformance.cases import INPUTS, Array, Call, NotOfferedError

# headwise's name of an option, and other names it may go by; the first one that is there is used.
NAMES = {
    "mask": ("mask", "attn_mask", "attention_mask"),
    "causal": ("causal", "is_causal"),
    "window": ("window", "window_size", "local_window_size"),
    "kv_lengths": ("kv_lengths", "key_lengths", "lengths", "key_value_seq_lengths"),
    "query_lengths": ("query_lengths", "query_seq_lengths"),
    "bias": ("bias", "attn_bias"),
    "softcap": ("softcap", "soft_cap", "logits_soft_cap"),
    "sink_logits": ("sink_logits", "sinks"),
    "num_kv_heads": ("num_kv_heads", "n_kv_heads", "kv_heads"),
}

MOST_NAMES = max(map(len, NAMES.values()))

Convert = Callable[[Array], Any]


def parameters_of(function: Callable[..., Any]) -> set[str] | None:
    """Return the names that may be given by keyword; None where any name may, or none is known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}


def run_function(function: Callable[..., Any], call: Call, convert: Convert) -> Any:
    """Call a function with a case's inputs by position and its options by the names it knows."""
    known = parameters_of(function)
    inputs = (call.inputs[name] for name in INPUTS[call.function])
    positional = [convert(x) if hasattr(x, "dtype") else x for x in inputs]
    options = {
        name: convert(x) if hasattr(x, "dtype") else x for name, x in spell_out(call.options)
    }
    if known is None:
        return _try_names(partial(function, *positional), options)
    given = {_name(option, known): x for option, x in options.items()}
    return function(*positional, **{**_unset(function, len(positional)), **given})


def _try_names(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Call a function that tells no parameters: one name of each option after another."""
    error = None
    for attempt in range(MOST_NAMES if options else 1):
        names = (NAMES.get(option, (option,)) for option in options)
        given = [aliases[min(attempt, len(aliases) - 1)] for aliases in names]
        try:
            return function(**dict(zip(given, options.values(), strict=True)))
        except TypeError as raised:
            if "unexpected keyword argument" not in str(raised):
                raise
            error = raised
    raise NotOfferedError(str(error))


def _unset(function: Callable[..., Any], inputs: int) -> dict[str, Any]:
    """Give None to options that a function wants to be given, such as a mask without a default."""
    names = {name for aliases in NAMES.values() for name in aliases}
    parameters = list(inspect.signature(function).parameters.values())[inputs:]
    return {p.name: None for p in parameters if p.default is p.empty and p.name in names}


def _name(option: str, known: set[str]) -> str:
    names = NAMES.get(option, (option,))
    for name in names:
        if name in known:
            return name
    raise NotOfferedError(f"no parameter {names[0]}")


def spell_out(options: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Give each option as what a plain function may have a parameter for.

    A mask is taken apart: causal, a window as ``(left, right)``, lengths, and one array.
    """
    for name, value in options.items():
        if name != "mask":
            yield name, value
            continue
        for part in parts_of(value):
            yield from _part(part)


def parts_of(mask: Any) -> list[Any]:
    """Return what a mask joins with ``&``; an array is itself."""
    return operands(mask) if isinstance(mask, Both) else [mask]


def _part(mask: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(mask, Band):
        yield ("causal", True) if mask.is_causal else ("window", (mask.left, mask.right))
    elif isinstance(mask, Lengths):
        if mask.left:
            raise NotOfferedError("no parameter for padding on the left")
        yield "kv_lengths", mask.kv_lengths
        if mask.query_lengths is not None:
            yield "query_lengths", mask.query_lengths
    else:
        yield "mask", mask.array if isinstance(mask, Dense) else mask
