from typing import Any

from numpy.typing import NDArray

FEW_ROWS: int

def attend(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    output: NDArray[Any],
    mask: NDArray[Any] | None,
    bias: NDArray[Any] | None,
    scale: float,
    left: int,
    right: int,
    query_offset: int | NDArray[Any],
    statistics: list[tuple[int, NDArray[Any]]],
    first_keys: int,
    num_threads: int,
    instruction_set: str,
    /,
) -> None: ...
def weights(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    output: NDArray[Any],
    mask: NDArray[Any] | None,
    bias: NDArray[Any] | None,
    scale: float,
    left: int,
    right: int,
    query_offset: int | NDArray[Any],
    statistics: list[tuple[int, NDArray[Any]]],
    rectangles: NDArray[Any],
    weights: NDArray[Any],
    num_threads: int,
    instruction_set: str,
    /,
) -> None: ...
def instruction_sets() -> list[str]: ...
def statistics() -> list[tuple[str, bool]]: ...
def exp2(x: NDArray[Any], y: NDArray[Any], instruction_set: str, /) -> None: ...
