from typing import Any

from numpy.typing import NDArray

FEW_ROWS: int
SPLIT_ROWS: int
MASK_DEPTH: int
OFFSET_MARGIN: int
MASK_KINDS: tuple[str, ...]

def attend(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    output: NDArray[Any],
    mask: list[tuple[Any, ...]],
    scoring: tuple[Any, ...],
    query_offset: int | NDArray[Any],
    statistics: list[tuple[int, NDArray[Any]]],
    first_keys: int,
    bounding: int,
    num_threads: int,
    team: bool,
    instruction_set: str,
) -> None: ...
def weights(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    output: NDArray[Any],
    mask: list[tuple[Any, ...]],
    scoring: tuple[Any, ...],
    query_offset: int | NDArray[Any],
    statistics: list[tuple[int, NDArray[Any]]],
    rectangles: NDArray[Any],
    weights: NDArray[Any],
    num_threads: int,
    team: bool,
    instruction_set: str,
) -> None: ...
def collect(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    output: NDArray[Any],
    mask: list[tuple[Any, ...]],
    scoring: tuple[Any, ...],
    query_offset: int | NDArray[Any],
    statistics: list[tuple[int, NDArray[Any]]],
    first_keys: int,
    bounding: int,
    collection: dict[str, Any],
    attended: bool,
    num_threads: int,
    team: bool,
    instruction_set: str,
) -> None: ...
def count_viewers(
    query: NDArray[Any],
    key: NDArray[Any],
    value: NDArray[Any],
    output: NDArray[Any],
    mask: list[tuple[Any, ...]],
    scoring: tuple[Any, ...],
    query_offset: int | NDArray[Any],
    statistics: list[tuple[int, NDArray[Any]]],
    viewers: NDArray[Any],
    pairs: NDArray[Any],
    num_threads: int,
    team: bool,
    instruction_set: str,
) -> None: ...
def attend_plainly(
    query: Any, key: Any, value: Any, num_threads: int, instruction_set: str
) -> NDArray[Any] | None: ...
def team_library() -> str: ...
def instruction_sets() -> list[str]: ...
def statistics() -> list[tuple[str, bool]]: ...
def apply(name: str, x: NDArray[Any], y: NDArray[Any], instruction_set: str) -> None: ...
