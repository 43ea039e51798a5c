"""How a function for a GPU is run: the kernels it starts, in order, and the memory they pass each other.

Extents are text over the function's sizes (see `compiler.extents`), so one build serves every size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ArtifactError, IRError
from compiler.extents import parse_extent

_SYMBOL = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]{0,511}")
MAX_THREADS = 1024
MAX_SHARED_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Workspace:
    """Device memory for the time of a call: `elements` of `dtype`."""

    dtype: str
    elements: str

    def __post_init__(self) -> None:
        try:
            parse_dtype(self.dtype)
        except IRError as error:
            raise ArtifactError(f"a workspace: {error.message}") from None
        parse_extent(self.elements)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel start. `grid` and `block` count along x, y, z.

    `slots` says what the kernel is passed: positions in the function's arguments, its implicit arguments after those,
    and its workspaces after those. `shared_bytes` is dynamic shared memory.
    """

    symbol: str
    grid: tuple[str, str, str]
    block: tuple[int, int, int]
    slots: tuple[int, ...]
    shared_bytes: int = 0

    def __post_init__(self) -> None:
        for name in ("grid", "block", "slots"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not _SYMBOL.fullmatch(self.symbol):
            raise ArtifactError(f"{self.symbol[:80]!r} is no kernel's name")
        threads = 1
        for extent in self.block:
            threads *= extent
        if len(self.block) != 3 or min(self.block) < 1 or threads > MAX_THREADS:
            raise ArtifactError(f"kernel {self.symbol}: blocks of {self.block} threads are not possible")
        if not 0 <= self.shared_bytes <= MAX_SHARED_BYTES:
            raise ArtifactError(f"kernel {self.symbol}: {self.shared_bytes} bytes of shared memory are not possible")
        for text in self.grid:
            parse_extent(text)
