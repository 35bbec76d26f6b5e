"""The grid of cases: shapes, masks, and the work that an answer needs at least."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

ROUND_TRIP = 2**28  # bytes between two calls on the same numbers, in bandwidth cases
ITEM_SIZE = {"float32": 4, "float64": 8, "bfloat16": 2}
TOLERANCE = {"float32": 1e-4, "float64": 1e-10, "bfloat16": 2e-2}  # of the largest output


@dataclass(frozen=True)
class Case:
    """One attention call.

    ``roof`` names what bounds it: ``"arithmetic"`` (fused multiply-adds), ``"bandwidth"`` (reading
    the keys and values from memory once) or ``"overhead"`` (the call itself; no roof is computed).
    """

    name: str
    batch: int
    heads: int
    query_len: int
    kv_len: int
    dim: int
    kv_heads: int = 0  # 0: as many as heads
    causal: bool = False
    window: int = 0  # how many keys a query sees, its own position's the last; 0: all
    lengths: tuple[int, ...] = ()  # keys that count of each batch item; (): all
    dtype: str = "float32"
    roof: str = "arithmetic"
    aim: float = 0.0  # share of the roof
    calls: int = 1  # calls timed as one, where one is too short to time

    @property
    def groups(self) -> int:
        """Key/value heads."""
        return self.kv_heads or self.heads

    @property
    def seed(self) -> int:
        """Seed of the inputs: a case has the same ones everywhere."""
        return zlib.crc32(self.name.encode())

    @property
    def pairs(self) -> int:
        """How many (query, key) pairs one head of the whole batch needs."""
        n, k = self.query_len, self.kv_len
        if self.lengths:
            return n * sum(self.lengths)
        if self.window:
            return self.batch * sum(min(i + 1, self.window) for i in range(n))
        return self.batch * (n * (n + 1) // 2 if self.causal else n * k)

    @property
    def flops(self) -> int:
        """Operations needed: a multiply and an add for scores and for outputs, seen pairs only."""
        return 4 * self.dim * self.heads * self.pairs

    @property
    def bytes(self) -> int:
        """Bytes that must move: keys and values once, queries and outputs once."""
        rows = 2 * self.heads * self.query_len + 2 * self.groups * self.kv_len
        return self.batch * rows * self.dim * ITEM_SIZE[self.dtype]

    @property
    def copies(self) -> int:
        """How many sets of the inputs calls walk through: a model has a cache for each layer.

        So many that no processor's caches hold them all, where reading memory is what counts.
        """
        return max(1, ROUND_TRIP // self.bytes) if self.roof == "bandwidth" else 1

    @property
    def tolerance(self) -> float:
        """Largest error, relative to the largest output, that counts as right."""
        return TOLERANCE[self.dtype]

    @property
    def shape(self) -> str:
        """The shape in words."""
        heads = f"{self.heads}/{self.kv_heads}" if self.kv_heads else f"{self.heads}"
        length = f"{self.query_len}x{self.kv_len}"
        marks = [m for m, on in (("causal", self.causal), ("window", self.window)) if on]
        marks += ["padded"] if self.lengths else []
        marks += [self.dtype] if self.dtype != "float32" else []
        return f"({self.batch}, {heads}, {length}, {self.dim})" + "".join(f" {m}" for m in marks)


PADDED_LENGTHS = (256, 365, 475, 585, 694, 804, 914, 1024)

CASES = (
    Case("bert512", 1, 12, 512, 512, 64, aim=0.80),
    Case("long4096", 1, 12, 4096, 4096, 64, aim=0.82),
    Case("batch32x128", 32, 12, 128, 128, 64, aim=0.75),
    Case("causal512", 1, 12, 512, 512, 64, causal=True, aim=0.70),
    Case("causal2048d128", 1, 16, 2048, 2048, 128, causal=True, aim=0.82),
    Case("gqa2048d128", 1, 32, 2048, 2048, 128, kv_heads=8, causal=True, aim=0.82),
    Case("window4096", 1, 8, 4096, 4096, 64, causal=True, window=256, aim=0.60),
    Case("padded1024", 8, 12, 1024, 1024, 64, lengths=PADDED_LENGTHS, aim=0.78),
    Case("decode8192", 1, 32, 1, 8192, 128, roof="bandwidth", aim=0.88),
    Case("gqadecode8192", 1, 32, 1, 8192, 128, kv_heads=8, roof="bandwidth", aim=0.85),
    Case("mqadecode32k", 1, 8, 1, 32768, 128, kv_heads=1, roof="bandwidth", aim=0.80),
    Case("bf16prefill", 1, 16, 1024, 1024, 128, causal=True, dtype="bfloat16", aim=0.78),
    Case("bf16decode", 1, 32, 1, 8192, 128, 8, dtype="bfloat16", roof="bandwidth", aim=0.75),
    Case("f64prefill", 1, 8, 1024, 1024, 64, dtype="float64", aim=0.80),
    Case("small8", 1, 1, 8, 8, 8, roof="overhead", calls=500),
    Case("small16", 1, 12, 16, 16, 64, roof="overhead", calls=100),
)
QUICK = ("bert512", "causal512", "gqadecode8192", "small8")


def find(names: str) -> list[Case]:
    """Return the cases named in a list separated by commas; every one where it is empty.

    Raises
    ------
    ValueError
        For a name that isn't in the grid.
    """
    by_name = {case.name: case for case in CASES}
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(by_name)
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        raise ValueError(f"no case is called {unknown[0]!r}; there are {', '.join(by_name)}")
    return [by_name[name] for name in wanted]
