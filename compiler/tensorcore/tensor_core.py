"""Matrix products on NVIDIA's tensor cores (sm_80 and later), written as whole kernels.

They use `mma.sync` with operands through `ldmatrix` from shared memory, which `cp.async` fills some steps ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.errors import IRError
from compiler.tensorcore.warp_fetch import WarpFetch, axes_at
from compiler.tensorcore.warp_form import BYTES, CHUNK_BYTES, FLOATS, WarpProduct
from compiler.tensorcore.warp_kernel import in_threads, plain_function, run
from compiler.tensorcore.warp_store import Results
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import ptx as ptx
from compiler.tir.intrin.gpu import WARP, tvm_storage_sync
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq

_DEPTH_BYTES = 32  # along k of one instruction
_NAMES = {"float16": "fp16", "bfloat16": "bf16", "int8": "int8", "uint8": "uint8"}


@dataclass(frozen=True, slots=True)
class WarpTile:
    """A block computes `m` x `n` results, `k` products of each at a time, by `warps` (along m, along n).
    Shared memory holds `stages` steps along k."""

    m: int = 128
    n: int = 128
    k: int = 32
    warps: tuple[int, int] = (2, 4)
    stages: int = 3

    @property
    def warp(self) -> tuple[int, int]:
        """Rows and columns of one warp."""
        return self.m // self.warps[0], self.n // self.warps[1]

    @property
    def threads(self) -> int:
        return WARP * self.warps[0] * self.warps[1]

    def shared_bytes(self, element: int = 2) -> int:
        """Return the bytes of shared memory, for operands of so many bytes an element."""
        return element * self.stages * (self.m + self.n) * self.k

    def steps(self, k: int) -> int:
        return -(-k // self.k)

    def check(self, k: int, element: int = 2) -> None:
        """Raise IRError unless such tiles can sum `k` products.
        The operands have so many bytes an element."""
        rows, columns = self.warp
        whole = rows > 0 and columns > 0 and rows % 16 == columns % 16 == self.k * element % _DEPTH_BYTES == 0
        chunks = [size * self.k * element // CHUNK_BYTES for size in (self.m, self.n)]
        even = all(count and count % self.threads == 0 for count in chunks)
        if not whole or not even or self.k < 1 or not 2 <= self.stages <= self.steps(k) + 1:
            raise IRError(
                f"a product with sums of {k} is not made of {self}",
                hint="a warp's part is a multiple of 16 x 16, and of 32 bytes along k; each thread copies as much; "
                "stages are at most one more than steps",
            )


def dense(
    m: int, n_: int, k: int, dtype: str = "float16", tile: WarpTile | None = None, *, transposed: bool = True,
    out_dtype: str | None = None,
) -> n.PrimFunc:  # fmt: skip
    """C[m, n] = X[m, k] W[n, k]^T, or X[m, k] W[k, n] where W is not `transposed`.

    X and W are "float16" or "bfloat16", the sums float32, and C is of `out_dtype`, rounded once. Or X and W are
    "int8" or "uint8", and the sums int32.

    The function is lowered; its parameters are X, W, C. Sizes need not be multiples of the tile's. Raises IRError
    for an invalid tile.
    """
    if dtype not in _NAMES:
        raise IRError(f"tensor cores multiply {', '.join((*FLOATS, *BYTES))} here, not {dtype}")
    chosen = WarpTile() if tile is None else tile
    return plain_function((m, n_, k), dtype, out_dtype, transposed, lambda product: kernel(product, chosen))


def kernel(product: WarpProduct, tile: WarpTile) -> Stmt:
    """Return what computes a product, as a function's body. Raises IRError for an invalid tile."""
    tile.check(product.sizes[3], product.left.bytes)
    return _Kernel(product, tile).body()


class _Kernel:
    """Writes the kernel. Thread x is the lane of a warp, y the warp; block z is one of a batch."""

    def __init__(self, product: WarpProduct, tile: WarpTile) -> None:
        self.product, self.tile = product, tile
        self.lane, self.warp = n.Var("lane", "int32"), n.Var("warp", "int32")
        self.bx, self.by, self.bz = (n.Var(name, "int32") for name in ("bx", "by", "bz"))
        rows, columns = tile.warp
        self.across, self.along = rows // 16, columns // 8  # of one warp's products
        self.batch = axes_at(product.b, self.bz)
        thread = self.warp * WARP + self.lane
        self.x, self.w = (
            WarpFetch(operand, own, product.k, self.batch, (size, tile.k), tile.stages, thread, tile.threads)
            for operand, own, size in ((product.left, product.m, tile.m), (product.right, product.n, tile.n))
        )
        part = CHUNK_BYTES // product.left.bytes  # elements of four registers
        self.parts = part, part // 2
        sizes = (("x_part", self.across * part, product.left.buffer.dtype),
                 ("w_part", self.along * part // 2, product.right.buffer.dtype),
                 ("sums", self.across * self.along * 4, product.total.dtype))  # fmt: skip
        self.x_part, self.w_part, self.sums = (
            n.decl_buffer((size,), kind, name, scope="local") for name, size, kind in sizes
        )

    def body(self) -> Stmt:
        batch, m, n_, _ = self.product.sizes
        tile = self.tile
        body = seq(self._zero(), *self._ahead(), self._steps(), self._store())
        held = (self.x.shared, self.w.shared, self.x.fetched, self.w.fetched, self.x_part, self.w_part, self.sums)
        axes = (
            (self.warp, "threadIdx.y", tile.warps[0] * tile.warps[1]), (self.lane, "threadIdx.x", WARP),
            (self.bx, "blockIdx.x", -(-n_ // tile.n)), (self.by, "blockIdx.y", -(-m // tile.m)),
            *(((self.bz, "blockIdx.z", batch),) if self.product.b else ()),
        )  # fmt: skip
        return in_threads(body, (buffer for buffer in held if buffer is not None), axes)

    # ------------------------------------------------------------------------------------ filling

    def _begin(self, stage: PrimExpr, step: PrimExpr) -> list[Stmt]:
        """Begin to fetch step `step` of both operands for a stage."""
        return [*self.x.begin(stage, self.by * self.tile.m, step), *self.w.begin(stage, self.bx * self.tile.n, step)]

    def _finish(self, stage: PrimExpr) -> list[Stmt]:
        return [*self.x.finish(stage), *self.w.finish(stage)]

    def _ahead(self) -> list[Stmt]:
        """The first steps."""
        first = [ops.const(step) for step in range(self.tile.stages - 1)]
        return [seq(*self._begin(s, s), run(ptx.ptx_commit_group()), *self._finish(s)) for s in first]

    def _steps(self) -> Stmt:
        tile, count = self.tile, self.tile.steps(self.product.sizes[3])
        step = n.Var("step", "int32")
        later = step + (tile.stages - 1)
        stage = ops.floormod(later, tile.stages)
        finish = self._finish(stage)
        instruction = _DEPTH_BYTES // self.product.left.bytes
        body = seq(
            run(ptx.ptx_wait_group(tile.stages - 2)),
            run(tvm_storage_sync("shared")),
            n.IfThenElse(later < count, seq(*self._begin(stage, later))),
            run(ptx.ptx_commit_group()),
            *(self._multiply(ops.floormod(step, tile.stages), at) for at in range(0, tile.k, instruction)),
            n.IfThenElse(later < count, seq(*finish)) if finish else None,
        )
        return n.For(step, ops.const(0), ops.const(count), ForKind.SERIAL, body)

    # ---------------------------------------------------------------------------------- computing

    def _warp_at(self) -> tuple[PrimExpr, PrimExpr]:
        """The row and column of the tile where a warp's part starts."""
        rows, columns = self.tile.warp
        along = self.tile.warps[1]
        return ops.floordiv(self.warp, along) * rows, ops.floormod(self.warp, along) * columns

    def _multiply(self, stage: PrimExpr, k: int) -> Stmt:
        """The products of one instruction along k, from element `k` of the stage on."""
        row, column = self._warp_at()
        low = ops.floormod(self.lane, 8)
        half, second = ops.floormod(ops.floordiv(self.lane, 8), 2), ops.floordiv(self.lane, 16)
        loads = [self._load(self.x, self.x_part, i, stage, (row + 16 * i, k), (half, second, low))
                 for i in range(self.across)]  # fmt: skip
        loads += [self._load(self.w, self.w_part, j, stage, (column + 16 * j, k), (second, half, low))
                  for j in range(self.along // 2)]  # fmt: skip
        left, right = (_NAMES[x.buffer.dtype] for x in (self.product.left, self.product.right))
        total = self.product.total.dtype
        shape, c_dtype = ("m16n8k32", "int32") if total == "int32" else ("m16n8k16", "fp32")
        part_x, part_w = self.parts
        products = [
            ptx.ptx_mma(
                total, shape, "row", "col", left, right, c_dtype, self.x_part.data, part_x * i,
                self.w_part.data, part_w * j, self.sums.data, 4 * (i * self.along + j),
            )
            for i in range(self.across) for j in range(self.along)
        ]  # fmt: skip
        return seq(*loads, *(run(product) for product in products))

    def _load(
        self, side: WarpFetch, part: n.Buffer, index: int, stage: PrimExpr, at: tuple[PrimExpr, int],
        lanes: tuple[PrimExpr, PrimExpr, PrimExpr],
    ) -> Stmt:  # fmt: skip
        """Load four matrices for one instruction: 16 elements of the operand's axis by its part along k.
        The part is the `index`-th. `lanes` says in which half along its own axis a lane's row is, in which half
        along k, and its number there."""
        (own, k), (own_half, k_half, low) = at, lanes
        if side.transposed:
            row, chunk = k_half * 8 + low + k, ops.floordiv(own, side.chunk) + own_half
        else:
            row, chunk = own + own_half * 8 + low, k_half + k // side.chunk
        source = side.at(stage, row, chunk)
        dtype, target = part.dtype, self.parts[0] * index
        return run(ptx.ptx_ldmatrix(dtype, side.transposed, 4, ".b16", part.data, target, side.shared.data, source))

    def _zero(self) -> Stmt:
        size, dtype = self.across * self.along * 4, self.sums.dtype
        return _unrolled("i", size, lambda i: n.BufferStore(self.sums, ops.const(0, dtype), (i,)))

    def _store(self) -> Stmt:
        """Each thread's pairs of results, and what is made of them."""
        row, column = self._warp_at()
        row = self.by * self.tile.m + row + ops.floordiv(self.lane, 4)
        pair = self.bx * (self.tile.n // 2) + ops.floordiv(column, 2) + ops.floormod(self.lane, 4)
        results = Results(self.product, self.batch, self.sums, (self.tile.m, self.tile.n))
        found: list[Stmt] = []
        for i in range(self.across):
            for half in range(2):
                pairs = [(pair + 4 * j, 4 * (i * self.along + j) + 2 * half) for j in range(self.along)]
                found.append(results.row(row + (16 * i + 8 * half), pairs))
        return seq(*found)


def _unrolled(name: str, extent: int, body: Callable[[n.Var], Stmt]) -> Stmt:
    var = n.Var(name, "int32")
    return n.For(var, ops.const(0), ops.const(extent), ForKind.UNROLLED, body(var))
