"""Which module of a model is which, and which models can be run on headwise at all."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any

INTERFACE = "ALL_ATTENTION_FUNCTIONS"
BY_HAND = {
    "softmax", "Softmax", "scaled_dot_product_attention", "matmul", "bmm", "baddbmm", "einsum",
}  # fmt: skip


@dataclass(frozen=True)
class LayerName:
    """Which module of a model this is.

    Attributes
    ----------
    name
        Its qualified name: ``decoder.layers.3.encoder_attn``.
    stack
        The name without numbers: ``decoder.layers.encoder_attn``. Encoder, decoder and
        cross-attention, or the towers of several modalities, are different stacks.
    index
        Which of its stack it is: the module's ``layer_idx`` where all of the stack have different
        ones, else a running number.
    """

    name: str
    stack: str
    index: int


def name_layers(model: Any) -> dict[Any, LayerName]:
    """Return of every module of a model which it is.

    Examples
    --------
    >>> import torch
    >>> from headwise.adapters.transformers import name_layers
    >>> layers = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)])
    >>> model = torch.nn.ModuleDict({"layers": layers})
    >>> name_layers(model)[layers[1]]
    LayerName(name='layers.1', stack='layers', index=1)
    """
    stacks: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for name, module in model.named_modules():
        stacks[re.sub(r"(?<![^.])\d+(?![^.])", "*", name)].append((name, module))
    found = {}
    for pattern, members in stacks.items():
        own = [getattr(module, "layer_idx", None) for _, module in members]
        numbers = [n for n in own if isinstance(n, int)]
        if len({*numbers}) < len(own):
            numbers = list(range(len(own)))
        stack = ".".join(part for part in pattern.split(".") if part != "*")
        for number, (name, module) in zip(numbers, members, strict=True):
            found[module] = LayerName(name, stack, number)
    return found


def is_cross_attention(module: Any) -> bool:
    """Tell of a module whose mask is bidirectional whether its keys are of another sequence.

    Decoders see all of an encoder's keys; their own they see causally.
    """
    said = getattr(module, "is_cross_attention", None)
    if isinstance(said, bool):
        return said
    config = getattr(module, "config", None)
    decoder = getattr(module, "is_decoder", getattr(config, "is_decoder", False))
    return bool(decoder) or "cross" in type(module).__name__.lower()


def check_class(model_class: type) -> None:
    """Refuse a model whose attention does not ask the interface who computes it.

    Models in a model are asked themselves, as they are made.

    Raises
    ------
    ValueError
        Where something in the model computes attention by itself and nothing asks.
    """
    parts = _parts(model_class)
    by_itself = sorted({name for part in parts for name in _by_itself(part)})
    if not by_itself:
        return
    what = f"{model_class.__name__} computes attention by itself ({', '.join(by_itself)})"
    if any(INTERFACE in _names(part) for part in parts):
        warnings.warn(f"{what} in some places, which stay as they are", stacklevel=2)
        return
    raise ValueError(
        f"{what} and never asks transformers' attention interface, so that headwise would not be "
        'called: use attn_implementation="eager" (of a model in a model alone: {"": "headwise", '
        '"vision_config": "eager"}), or a version of transformers in which it asks'
    )


def _parts(model_class: type) -> list[type]:
    """Return the classes of what a model is built from, without models within."""
    found: list[type] = []
    left = [model_class]
    while left:
        part = left.pop()
        if part is not model_class:
            found.append(part)
        for base in part.__mro__:
            make = vars(base).get("__init__")
            space = vars(sys.modules.get(base.__module__, sys))
            named = (_unfold(space.get(name)) for name in _names_in([make]))
            left += [x for xs in named for x in xs if _is_part(x) and x not in {*found, *left}]
    return found


def _unfold(x: Any) -> list[Any]:
    """Return what a name may stand for: some models choose from a table."""
    return list(x.values()) if isinstance(x, dict) else [x]


def _is_part(x: Any) -> bool:
    return isinstance(x, type) and hasattr(x, "forward") and not hasattr(x, "from_pretrained")


def _by_itself(part: type) -> list[str]:
    """Return what computes attention without asking: the class, or the table it chooses from."""
    names = _names(part)
    tables = [name for name in names if name.endswith(("ATTENTION_CLASSES", "ATTENTION_FUNCTION"))]
    if "attention" in part.__name__.lower() and names & BY_HAND and INTERFACE not in names:
        return [part.__name__, *tables]
    return tables


def _names(part: type) -> set[str]:
    """Return the global names and attributes that a class's methods refer to."""
    return _names_in(f for base in part.__mro__ if base.__module__.split(".")[0] != "torch"
                     for f in vars(base).values())  # fmt: skip


def _names_in(functions: Iterable[Any]) -> set[str]:
    names: set[str] = set()
    codes = [getattr(inspect.unwrap(f), "__code__", None) for f in functions if callable(f)]
    while codes:
        code = codes.pop()
        if code is not None:
            names |= set(code.co_names)
            codes += [c for c in code.co_consts if isinstance(c, CodeType)]
    return names
