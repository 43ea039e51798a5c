"""How a function for a GPU is run.

The kernels it starts, in order, and the memory they pass each other.

Extents are text over the function's sizes (see `compiler.extents`), so one build serves every size.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from compiler.dtype import parse_dtype
from compiler.errors import ArtifactError, IRError
from compiler.extents import parse_extent

_SYMBOL = re.compile(r"[A-Za-z_.$][A-Za-z0-9_.$]{0,511}")
# Of every architecture (CUDA programming guide, technical specifications), along x, y, z.
MAX_THREADS = 1024  # of a block, all axes together
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = ((1 << 31) - 1, 65_535, 65_535)
MAX_SHARED_BYTES = 256 << 10
TENSOR_MAP_DTYPES = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A matrix that tensor memory copies read. A kernel gets its description in place of its address.

    It has `shape` elements, in tiles of `box` elements. Each row of a tile becomes 128 swizzled bytes in shared memory.
    `parameter` is its position among the kernel's arguments.
    """

    parameter: int
    dtype: str
    shape: tuple[int, int]
    box: tuple[int, int]

    def __post_init__(self) -> None:
        for name in ("shape", "box"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        rows, columns = self.shape
        fits = 1 <= self.box[0] <= 256 and self.box[1] == 64 and columns % 8 == 0
        if self.dtype not in TENSOR_MAP_DTYPES or not fits or not (0 < rows < 1 << 31 and 0 < columns < 1 << 31):
            raise ArtifactError(f"a kernel cannot copy {self.box} elements of a {self.shape} matrix of {self.dtype!r}")


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
    and its workspaces after those. `shared_bytes` is dynamic shared memory. Matrices in `tensor_maps` are passed as
    descriptions, before all else.
    """

    symbol: str
    grid: tuple[str, str, str]
    block: tuple[int, int, int]
    slots: tuple[int, ...]
    shared_bytes: int = 0
    tensor_maps: tuple[TensorMap, ...] = ()

    def __post_init__(self) -> None:
        for name in ("grid", "block", "slots", "tensor_maps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not _SYMBOL.fullmatch(self.symbol):
            raise ArtifactError(f"{self.symbol[:80]!r} is no kernel's name")
        threads = 1
        for extent in self.block:
            threads *= extent
        fits = len(self.block) == 3 and all(1 <= e <= most for e, most in zip(self.block, MAX_BLOCK))
        if not fits or threads > MAX_THREADS:
            raise ArtifactError(f"kernel {self.symbol}: blocks of {self.block} threads are not possible")
        if not 0 <= self.shared_bytes <= MAX_SHARED_BYTES:
            raise ArtifactError(f"kernel {self.symbol}: {self.shared_bytes} bytes of shared memory are not possible")
        if [tensor_map.parameter for tensor_map in self.tensor_maps] != list(range(len(self.tensor_maps))):
            raise ArtifactError(f"kernel {self.symbol}: tensor maps come first, in order")
        if len(self.tensor_maps) > len(self.slots):
            raise ArtifactError(f"kernel {self.symbol}: there are more tensor maps than arguments")
        for text in self.grid:
            parse_extent(text)
