"""The kinds of masks: what each shows, how they combine, compare and print."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headwise._arrays import dtype_name, is_additive, to_numpy
from headwise._dense import boolean_mask
from headwise._errors import shape_text
from headwise._numbers import whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAKERS = ("causal", "documents", "lengths", "prefix", "window")
_SHOWN = 16  # a repr writes arrays of up to so many numbers in full


class Value:
    """An immutable object: equal ones compare equal and have the same hash."""

    def _identity(self) -> tuple[Any, ...]:
        """Return what makes two of this class equal."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value) or type(other) is not type(self):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((type(self), self._identity()))


class Where(NamedTuple):
    """Where a mask is looked at: lengths that are not known are None."""

    query_offset: Any = 0  # broadcasts to (..., num_heads, query_len, kv_len)
    query_len: int | None = None
    kv_len: int | None = None

    @classmethod
    def given(cls, query_offset: Any, query_len: Any, kv_len: Any) -> Where:
        """Check what a caller says."""
        names = {"query_len": query_len, "kv_len": kv_len}
        lengths = (n if n is None else whole_number(name, n) for name, n in names.items())
        return cls(each_item(query_offset), *lengths)


def each_item(x: Any) -> Any:
    """Give what there is one of for each batch item the dimensions (..., 1, 1, 1) of scores."""
    array = np.asarray(x)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"query_offset must be whole numbers here, got {x!r}"[:200])
    array = array.astype(np.int64)
    return array[..., None, None, None] if array.ndim else array


def query_positions(query_len: int, query_offset: Any = 0) -> NDArray[np.int64]:
    """Return where each query stands on the keys' axis, ``(query_len, 1)``.

    An array of offsets, one for each batch item, gives ``(..., 1, query_len, 1)``.
    """
    return np.asarray(np.arange(query_len)[:, None] + each_item(query_offset))


class Mask(Value):
    """A mask as an object. Make one with the functions of this module; combine with ``&``, ``|``.

    Masks are immutable values: equal ones compare equal and have the same hash.
    """

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        """Tell for queries i and keys j, (queries, 1) and (1, keys), what is visible."""
        raise NotImplementedError

    def visible(
        self,
        i: int,
        j: int,
        query_offset: Any = 0,
        *,
        query_len: int | None = None,
        kv_len: int | None = None,
    ) -> bool:
        """Tell whether query ``i`` may attend to key ``j``, for people.

        Where a mask differs between batch items or heads: whether it may in all of them. Left
        padding needs the lengths.

        Examples
        --------
        >>> import headwise
        >>> headwise.causal().visible(3, 2), headwise.causal().visible(3, 4)
        (True, False)
        """
        where = Where.given(query_offset, query_len, kv_len)
        query, key = np.array([[whole_number("i", i)]]), np.array([[whole_number("j", j)]])
        return bool(np.all(self._sees(query, key, where)))

    def to_array(self, query_len: int, kv_len: int, query_offset: Any = 0) -> NDArray[np.bool_]:
        """Return the mask as a boolean array, for debugging.

        Its shape is ``(query_len, kv_len)``, with leading dimensions ``(..., 1 or num_heads)``
        where it differs between batch items or heads.

        Examples
        --------
        >>> import headwise
        >>> headwise.causal().to_array(2, 3, query_offset=1)
        array([[ True,  True, False],
               [ True,  True,  True]])
        """
        where = Where.given(query_offset, query_len, kv_len)
        i, j = np.arange(query_len)[:, None], np.arange(kv_len)[None, :]
        seen = np.asarray(self._sees(i, j, where), dtype=np.bool_)
        shape = np.broadcast_shapes(seen.shape, (query_len, kv_len))
        return np.array(np.broadcast_to(seen, shape))

    def __and__(self, other: Any) -> Mask:
        return Both(self, _as_mask(other, "&"))

    def __or__(self, other: Any) -> Mask:
        return Either(self, _as_mask(other, "|"))

    __rand__ = __and__
    __ror__ = __or__
    __array_ufunc__ = None  # array & mask comes here, too

    def __invert__(self) -> Mask:
        raise TypeError("a mask is not inverted as a whole: pass an array, ~mask.to_array(...)")

    def __bool__(self) -> bool:
        raise TypeError("a mask is neither true nor false: combine masks with & and |, not and, or")


def _as_mask(other: Any, sign: str) -> Mask:
    """Take what stands beside a mask: another one, or an array of truth values or 0 and 1."""
    if isinstance(other, Mask):
        return other
    if other is None:
        raise TypeError(
            f"a mask was combined with None by {sign}, expected a mask or a boolean array"
        )
    refuse_names(other)
    array = to_numpy("mask", other)
    if array.ndim < 1:
        raise ValueError(f"mask must have at least 1 dimension (kv_len), got the number {array}")
    if is_additive(array):
        raise TypeError(
            f"a mask combined by {sign} must be boolean, got an array of {dtype_name(array)}: pass "
            "that one as bias="
        )
    return Dense(array if isinstance(other, list | tuple) else other)


@dataclass(frozen=True, eq=False, repr=False)
class Band(Mask):
    """The keys within some distance: ``-left <= j - (i + query_offset) <= right``; None is any."""

    left: int | None = None
    right: int | None = None

    @property
    def is_causal(self) -> bool:
        """Whether this is the causal mask."""
        return (self.left, self.right) == (None, 0)

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        ahead = j - (i + where.query_offset)
        seen = np.ones(np.shape(ahead), dtype=np.bool_)
        if self.left is not None:
            seen = seen & (ahead >= -self.left)
        return seen if self.right is None else seen & (ahead <= self.right)

    def _identity(self) -> tuple[Any, ...]:
        return (self.left, self.right)

    def __repr__(self) -> str:
        if self.is_causal:
            return "causal()"
        return f"window({self.left}, {self.right})"


@dataclass(frozen=True, eq=False, repr=False)
class Lengths(Mask):
    """Padding: of each batch item only the first keys (and queries) are real, or the last."""

    kv_lengths: NDArray[np.int64]
    query_lengths: NDArray[np.int64] | None = None
    left: bool = False

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        seen = self._real(j, self.kv_lengths, where.kv_len, "kv_len")
        if self.query_lengths is None:
            return seen
        return seen & self._real(i, self.query_lengths, where.query_len, "query_len")

    def _real(self, index: Any, lengths: Any, whole: int | None, name: str) -> Any:
        if whole is not None:
            self.check(f"{name}gths", whole)
        if not self.left:
            return index < each_item(lengths)
        if whole is None:
            raise ValueError(f"what left padding shows depends on {name}: give {name}=")
        return index >= whole - each_item(lengths)

    def check(self, name: str, size: int) -> None:
        """Check that ``kv_lengths`` or ``query_lengths``, by name, lie within an array's length."""
        lengths = getattr(self, name)
        if lengths.size and lengths.max() > size:
            axis = name.removesuffix("gths")
            raise ValueError(f"{name} must be at most {axis} {size}, got {lengths.max()}")

    def _identity(self) -> tuple[Any, ...]:
        return (_key(self.kv_lengths), _key(self.query_lengths), self.left)

    def __repr__(self) -> str:
        queries = "" if self.query_lengths is None else f", {_text(self.query_lengths)}"
        return f"lengths({_text(self.kv_lengths)}{queries}{', left=True' * self.left})"


@dataclass(frozen=True, eq=False, repr=False)
class Documents(Mask):
    """Packed sequences: queries and keys of one document see one another."""

    query_ids: NDArray[np.int64]
    key_ids: NDArray[np.int64]

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        self.check_lengths(where.query_len, where.kv_len)
        _check_within("i", i, self.query_ids.shape[-1])
        _check_within("j", j, self.key_ids.shape[-1])
        queries, keys = (
            x[..., None, :] if x.ndim > 1 else x for x in (self.query_ids, self.key_ids)
        )
        return queries[..., i] == keys[..., j]

    def check_lengths(self, query_len: int | None, kv_len: int | None) -> None:
        """Check that there is an id for every query and key."""
        for name, ids, size in (
            ("query_ids", self.query_ids, query_len),
            ("key_ids", self.key_ids, kv_len),
        ):
            if size is not None and ids.shape[-1] != size:
                raise ValueError(
                    f"{name} of documents must hold one id for each of {size} positions (last "
                    f"dimension), got shape {shape_text(ids.shape)}"
                )

    def _identity(self) -> tuple[Any, ...]:
        return (_key(self.query_ids), _key(self.key_ids))

    def __repr__(self) -> str:
        same = _key(self.key_ids) == _key(self.query_ids)
        keys = "" if same else f", {_text(self.key_ids)}"
        return f"documents({_text(self.query_ids)}{keys})"


@dataclass(frozen=True, eq=False, repr=False)
class Prefix(Mask):
    """The first keys, visible to every query."""

    n: NDArray[np.int64]

    def _sees(self, i: Any, j: Any, where: Where) -> Any:  # noqa: ARG002
        return (j < each_item(self.n)) & np.ones(np.shape(i), dtype=np.bool_)

    def _identity(self) -> tuple[Any, ...]:
        return (_key(self.n),)

    def __repr__(self) -> str:
        return f"prefix({_text(self.n)})"


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Mask):
    """A boolean array as a mask, so that it combines with structured ones. It is not copied."""

    array: Any

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        array = np.atleast_2d(boolean_mask(to_numpy("mask", self.array)))
        rows, columns = array.shape[-2:]
        if any(n not in {1, size, None} and size is not None
               for n, size in ((rows, where.query_len), (columns, where.kv_len))):  # fmt: skip
            raise ValueError(
                "mask must broadcast to (..., query_len, kv_len) = "
                f"{shape_text((where.query_len or 0, where.kv_len or 0))}, got shape "
                f"{shape_text(array.shape)}"
            )
        i, j = i if rows != 1 else 0 * i, j if columns != 1 else 0 * j
        _check_within("i", i, rows)
        _check_within("j", j, columns)
        return array[..., i, j]

    def _identity(self) -> tuple[Any, ...]:
        return (id(self.array),)  # two masks of one array are equal; contents may change

    def __repr__(self) -> str:
        return f"<boolean mask {shape_text(np.shape(self.array))}>"


@dataclass(frozen=True, eq=False, repr=False)
class Both(Mask):
    """What two masks both show."""

    one: Mask
    other: Mask

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        return reduce(operator.and_, (m._sees(i, j, where) for m in operands(self)))

    def _identity(self) -> tuple[Any, ...]:
        return tuple(operands(self))

    def __repr__(self) -> str:
        return " & ".join(f"({m!r})" if isinstance(m, Either) else repr(m) for m in operands(self))


@dataclass(frozen=True, eq=False, repr=False)
class Either(Mask):
    """What at least one of two masks shows."""

    one: Mask
    other: Mask

    def _sees(self, i: Any, j: Any, where: Where) -> Any:
        return reduce(operator.or_, (m._sees(i, j, where) for m in operands(self)))

    def _identity(self) -> tuple[Any, ...]:
        return tuple(operands(self))

    def __repr__(self) -> str:
        return " | ".join(map(repr, operands(self)))


def operands(mask: Mask, kind: type[Mask] | None = None) -> list[Mask]:
    """Return what a chain of one sign joins, in order; the mask itself where it is no chain."""
    kind, found, left = kind or type(mask), [], [mask]
    while left:
        part = left.pop()
        if isinstance(part, Both | Either) and isinstance(part, kind):
            left += [part.other, part.one]
        else:
            found.append(part)
    return found


def refuse_names(mask: Any) -> None:
    """Refuse the name of a mask, or the function that makes it, in a mask's place."""
    name = mask if isinstance(mask, str) else getattr(mask, "__name__", None)
    if name is not None:
        meant = f": did you mean headwise.{name}()?" if name in MAKERS else ""
        raise TypeError(f"mask must be an array or a mask, got {mask!r}{meant}")


def _check_within(name: str, index: Any, size: int) -> None:
    if np.size(index) and np.max(index) >= size:
        raise ValueError(f"{name} must lie within the mask's {size}, got {np.max(index)}")


def _key(array: NDArray[np.int64] | None) -> Any:
    return None if array is None else (array.shape, array.tobytes())


def _text(array: NDArray[np.int64]) -> str:
    if array.size > _SHOWN:
        return f"<{array.dtype} array {shape_text(array.shape)}>"
    return str(array.tolist())
