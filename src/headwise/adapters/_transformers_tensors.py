"""Tensors that are made when somebody looks at their numbers, and not before.

Between where a model makes its masks and where it uses them lies code of hundreds of models. It
asks whether a mask is None, how many dimensions it has, puts it into dictionaries, hands it through
`generate`, and now and then slices it, concatenates it or adds something. So what travels must be a
tensor; and it must not take n × n numbers where nobody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map


class Deferred(torch.Tensor):
    """A tensor of known shape and dtype whose numbers are made at the first operation on it.

    Every operation sees, and results in, an ordinary tensor.
    """

    _make: Callable[[], torch.Tensor]
    _made: torch.Tensor | None

    @staticmethod
    def __new__(
        cls: Any, shape: Sequence[int], dtype: torch.dtype, *, make: Callable[[], torch.Tensor]
    ) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)

    def __init__(self, *_: Any, make: Callable[[], torch.Tensor]) -> None:
        self._make = make
        self._made = None
        self.intact = True  # nobody was given the numbers' memory, to write to it

    def dense(self) -> torch.Tensor:
        """Return the numbers as an ordinary tensor, the same one each time."""
        if self._made is None:
            with torch.no_grad():
                self._made = self._make()
        return self._made

    def _hand_out(self) -> torch.Tensor:
        self.intact = False
        return self.dense()

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        shares = _shares_memory(func)

        def ordinary(x: Any) -> Any:
            if not isinstance(x, Deferred):
                return x
            return x._hand_out() if shares else x.dense()

        return func(*tree_map(ordinary, args), **tree_map(ordinary, kwargs or {}))

    # what does not pass through the dispatcher
    def numpy(self, *, force: bool = False) -> Any:
        return self._hand_out().numpy(force=force)

    def tolist(self) -> Any:
        return self.dense().tolist()

    def data_ptr(self) -> int:
        return self._hand_out().data_ptr()

    def __dlpack__(self, **options: Any) -> Any:
        return self._hand_out().__dlpack__(**options)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.dense().__deepcopy__(memo)  # type: ignore[no-untyped-call]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.dense().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"{type(self).__name__}(shape={tuple(self.shape)}, dtype={self.dtype})"


def _shares_memory(func: Any) -> bool:
    """Tell whether an operation writes to what it is given, or returns a view of it."""
    schema = func._schema
    return any(x.alias_info is not None for x in (*schema.arguments, *schema.returns))


def plain(x: Any) -> Any:
    """Return a tensor's numbers free of the graph of gradients; what is no tensor as it is."""
    x = x.dense() if isinstance(x, Deferred) else x
    return x.detach() if isinstance(x, torch.Tensor) else x
