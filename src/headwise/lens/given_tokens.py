"""Which tokens the modules of a model are given, step by step."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from headwise._arrays import Array


class GivenTokens:
    """Remembers the ``input_ids`` of a model's modules, and puts those of a text together."""

    def __init__(self) -> None:
        self._given: dict[str, Array | None] = {}  # module's name: ids of this step
        self._so_far: dict[str, Array] = {}

    def attach(self, model: Any) -> list[Any]:
        """Put hooks on all modules that are given tokens; return what removes them."""
        return [
            module.register_forward_pre_hook(
                self._hook(name, _parameters(module)), with_kwargs=True
            )
            for name, module in model.named_modules()
            if "input_ids" in _parameters(module)
        ]

    def _hook(self, name: str, parameters: list[str]) -> Any:
        def remember(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            ids = {**dict(zip(parameters, args, strict=False)), **kwargs}.get("input_ids")
            self._given[name] = None if ids is None else ids.cpu().numpy().copy()

        return remember

    def of(self, module: str, queries: int, position: int) -> Array | None:
        """Return the ids ``(batch, tokens so far)`` of the texts that a module reads.

        Parameters
        ----------
        module
            Its name. The innermost module around it that was given as many tokens as there are
            queries knows.
        queries, position
            How many there are, and where the first one stands; padding counts.
        """
        around = [n for n in self._given if n in {"", module} or module.startswith(n + ".")]
        for name in sorted(around, key=len, reverse=True):
            ids = self._given[name]
            if ids is not None and ids.ndim == 2 and ids.shape[1] == queries:
                return self._with_past(name, ids, position)
        return None

    def _with_past(self, name: str, ids: Array, position: int) -> Array | None:
        past, end = self._so_far.get(name), position + ids.shape[1]
        if position == 0:
            whole = ids
        elif past is None or len(past) != len(ids) or past.shape[1] < position:
            return None  # what came before was not watched
        elif past.shape[1] == end and np.array_equal(past[:, position:], ids):
            return past
        else:
            whole = np.concatenate([past[:, :position], ids], axis=1)
        self._so_far[name] = whole
        return whole


def _parameters(module: Any) -> list[str]:
    try:
        return list(inspect.signature(module.forward).parameters)
    except (TypeError, ValueError):
        return []
