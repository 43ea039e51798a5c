"""Matrix products on NVIDIA's tensor cores (sm_80 and later), written as a kernel: `mma.sync` with operands through
`ldmatrix` from shared memory, which `cp.async` fills some steps ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from compiler.errors import IRError
from compiler.lower.inject_barriers import OWN_BARRIERS
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir import ptx_intrin as ptx
from compiler.tir.gpu_intrin import WARP, tvm_storage_sync
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq

_CHUNK = 8  # elements of 16 bits of one asynchronous copy; eight of them span all banks of shared memory
_MMA = (16, 8, 16)


@dataclass(frozen=True, slots=True)
class WarpTile:
    """A block computes `m` x `n` results, `k` products of each at a time, by `warps` (along m, along n). Shared memory
    holds `stages` steps along k."""

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

    @property
    def shared_bytes(self) -> int:
        return 2 * self.stages * (self.m + self.n) * self.k

    def check(self, m: int, n: int, k: int) -> None:
        """Raise IRError unless a product of this size is made of such tiles."""
        rows, columns = self.warp
        if min(rows, columns, self.k) < 16:
            rows = columns = 1  # too small for a warp's instructions: refused below
        whole = m % self.m == n % self.n == k % self.k == 0 and rows % 16 == columns % 16 == self.k % 16 == 0
        even = self.m * self.k % (_CHUNK * self.threads) == self.n * self.k % (_CHUNK * self.threads) == 0
        if not whole or not even or not 2 <= self.stages <= k // self.k + 1:
            raise IRError(
                f"a {m} x {n} x {k} product is not made of {self}",
                hint="sizes are multiples of the tile's, a warp's part of 16 x 16, copies as many for each thread",
            )


def dense(
    m: int,
    n_: int,
    k: int,
    dtype: str = "float16",
    tile: WarpTile | None = None,
    *,
    transposed: bool = True,
    out_dtype: str = "float32",
) -> n.PrimFunc:
    """C[m, n] = X[m, k] W[n, k]^T, or X[m, k] W[k, n] where W is not `transposed`: X and W "float16" or "bfloat16", the
    sums float32, C `out_dtype`, rounded once.

    The function is lowered; its parameters are X, W, C. Raises IRError for sizes that are not multiples of the tile's.
    """
    chosen = WarpTile() if tile is None else tile
    chosen.check(m, n_, k)
    if dtype not in ("float16", "bfloat16"):
        raise IRError(f"tensor cores multiply float16 or bfloat16 here, not {dtype}")
    if out_dtype not in ("float32", dtype):
        raise IRError(f"a product of {dtype} is float32 or {dtype}, not {out_dtype}")
    return _Dense(m, n_, k, dtype, chosen, transposed, out_dtype).function()


class _Dense:
    """Writes the kernel. Thread x is the lane of a warp, y the warp.

    A tile lies in shared memory as it does outside, in chunks of 16 bytes whose place in a row depends on the row: the
    eight rows of a matrix that `ldmatrix` reads at once are then in different banks, without room between rows.
    """

    def __init__(self, m: int, n_: int, k: int, dtype: str, tile: WarpTile, transposed: bool, out_dtype: str) -> None:
        self.sizes, self.tile, self.dtype, self.transposed = (m, n_, k), tile, dtype, transposed
        shapes = (("X", (m, k), dtype), ("W", (n_, k) if transposed else (k, n_), dtype), ("C", (m, n_), out_dtype))
        self.args = [n.decl_buffer(shape, kind, name) for name, shape, kind in shapes]
        self.lane, self.warp = n.Var("lane", "int32"), n.Var("warp", "int32")
        self.bx, self.by = n.Var("bx", "int32"), n.Var("by", "int32")
        rows, columns = tile.warp
        self.across, self.along = rows // _MMA[0], columns // _MMA[1]  # of one warp's products
        self.shared = [
            n.decl_buffer((tile.stages * size * tile.k,), dtype, f"{name}_shared", scope="shared")
            for name, size in (("X", tile.m), ("W", tile.n))
        ]
        sizes = (("x_part", self.across * 8, dtype), ("w_part", self.along * 4, dtype),
                 ("sums", self.across * self.along * 4, "float32"))  # fmt: skip
        self.x_part, self.w_part, self.sums = (
            n.decl_buffer((size,), kind, name, scope="local") for name, size, kind in sizes
        )

    def function(self) -> n.PrimFunc:
        m, n_, _ = self.sizes
        tile = self.tile
        body = seq(self._zero(), *self._ahead(), self._steps(), self._store())
        for buffer in (*self.shared, self.x_part, self.w_part, self.sums):
            body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, ops.const(True), body, buffer.scope)
        bound = (
            (self.warp, "threadIdx.y", tile.warps[0] * tile.warps[1]), (self.lane, "threadIdx.x", WARP),
            (self.bx, "blockIdx.x", n_ // tile.n), (self.by, "blockIdx.y", m // tile.m),
        )  # fmt: skip
        for var, tag, extent in bound:
            axis = n.IterVar(None, n.Var(tag, "int32"), n.IterType.THREAD_INDEX, tag)
            body = n.For(var, ops.const(0), ops.const(extent), ForKind.THREAD_BINDING, body, axis)
        params = tuple(n.Var(f"var_{buffer.name}", "handle") for buffer in self.args)
        attrs = {"tir.noalias": True, OWN_BARRIERS: True}
        return n.PrimFunc(params, body, buffer_map=dict(zip(params, self.args)), attrs=attrs)

    # ------------------------------------------------------------------------------------ filling

    def _ahead(self) -> list[Stmt]:
        """The first steps' copies begun."""
        first = [ops.const(step) for step in range(self.tile.stages - 1)]
        return [seq(*self._fill(step, step), _run(ptx.ptx_commit_group())) for step in first]

    def _fill(self, stage: PrimExpr, step: PrimExpr) -> list[Stmt]:
        """Begin to copy step `step` of both inputs into stage `stage`."""
        tile, (_, n_, k) = self.tile, self.sizes
        found = self._copy(0, stage, (tile.m, tile.k), self.by * (tile.m * k) + step * tile.k, k)
        if self.transposed:
            return found + self._copy(1, stage, (tile.n, tile.k), self.bx * (tile.n * k) + step * tile.k, k)
        return found + self._copy(1, stage, (tile.k, tile.n), step * (tile.k * n_) + self.bx * tile.n, n_)

    def _copy(self, which: int, stage: PrimExpr, shape: tuple[int, int], start: PrimExpr, pitch: int) -> list[Stmt]:
        """Copy a tile that starts at element `start` of an input, whose rows are `pitch` elements apart."""
        rows, width = shape
        target, source = self.shared[which].data, self.args[which].data
        found: list[Stmt] = []
        for turn in range(rows * width // _CHUNK // self.tile.threads):
            number = self.warp * WARP + self.lane + turn * self.tile.threads
            row, chunk = ops.floordiv(number, width // _CHUNK), ops.floormod(number, width // _CHUNK)
            at = _place(stage, shape, row, chunk)
            here = start + row * pitch + chunk * _CHUNK
            found.append(_run(ptx.ptx_cp_async(self.dtype, target, at, source, here, 2 * _CHUNK)))
        return found

    def _steps(self) -> Stmt:
        tile, count = self.tile, self.sizes[2] // self.tile.k
        step = n.Var("step", "int32")
        later = step + (tile.stages - 1)
        more = n.IfThenElse(later < count, seq(*self._fill(ops.floormod(later, tile.stages), later)))
        body = seq(
            _run(ptx.ptx_wait_group(tile.stages - 2)),
            _run(tvm_storage_sync("shared")),
            more,
            _run(ptx.ptx_commit_group()),
            *(self._multiply(ops.floormod(step, tile.stages), at) for at in range(0, tile.k, _MMA[2])),
        )
        return n.For(step, ops.const(0), ops.const(count), ForKind.SERIAL, body)

    # ---------------------------------------------------------------------------------- computing

    def _multiply(self, stage: PrimExpr, k: int) -> Stmt:
        """The products of 16 elements along k, from element `k` of the stage on."""
        rows, columns = self.tile.warp
        warp_row, warp_column = ops.floordiv(self.warp, self.tile.warps[1]), ops.floormod(self.warp, self.tile.warps[1])
        lane = self.lane
        low, half, second = ops.floormod(lane, 8), ops.floormod(ops.floordiv(lane, 8), 2), ops.floordiv(lane, 16)
        first = k // _CHUNK
        loads: list[Stmt] = []
        for i in range(self.across):
            at = _place(stage, (self.tile.m, self.tile.k), warp_row * rows + 16 * i + half * 8 + low, second + first)
            loads.append(self._load(self.x_part, i, self.shared[0], at, False))
        for j in range(self.along // 2):
            if self.transposed:
                row = warp_column * columns + 16 * j + second * 8 + low
                at = _place(stage, (self.tile.n, self.tile.k), row, half + first)
            else:
                chunk = ops.floordiv(warp_column * columns, _CHUNK) + 2 * j + second
                at = _place(stage, (self.tile.k, self.tile.n), half * 8 + low + k, chunk)
            loads.append(self._load(self.w_part, j, self.shared[1], at, not self.transposed))
        name = {"float16": "fp16", "bfloat16": "bf16"}[self.dtype]
        products = [
            ptx.ptx_mma(
                "float32", "m16n8k16", "row", "col", name, name, "fp32",
                self.x_part.data, 8 * i, self.w_part.data, 4 * j, self.sums.data, 4 * (i * self.along + j),
            )
            for i in range(self.across) for j in range(self.along)
        ]  # fmt: skip
        return seq(*loads, *(_run(product) for product in products))

    def _load(self, part: n.Buffer, index: int, shared: n.Buffer, at: PrimExpr, trans: bool) -> Stmt:
        """Four matrices, this thread's row at `at`, as the `index`-th operand."""
        return _run(ptx.ptx_ldmatrix(self.dtype, trans, 4, ".b16", part.data, 8 * index, shared.data, at))

    def _zero(self) -> Stmt:
        size = self.across * self.along * 4
        return _unrolled("i", size, lambda i: n.BufferStore(self.sums, ops.const(0.0, "float32"), (i,)))

    def _store(self) -> Stmt:
        """Each thread's pairs of results."""
        rows, columns = self.tile.warp
        n_ = self.sizes[1]
        out = n.Buffer("C", self.args[2].data, (ops.const(self.sizes[0] * n_),), self.args[2].dtype)
        row = self.by * self.tile.m + ops.floordiv(self.warp, self.tile.warps[1]) * rows + ops.floordiv(self.lane, 4)
        column = self.bx * self.tile.n + ops.floormod(self.warp, self.tile.warps[1]) * columns
        column = column + ops.floormod(self.lane, 4) * 2
        found: list[Stmt] = []
        for i in range(self.across):
            for j in range(self.along):
                for half in range(2):
                    at = (row + (16 * i + 8 * half)) * n_ + column + 8 * j
                    first = 4 * (i * self.along + j) + 2 * half
                    pair = n.BufferLoad(self.sums, (n.Ramp(ops.const(first), ops.const(1), 2),))
                    value = ops.cast(f"{out.dtype}x2", pair)
                    found.append(n.BufferStore(out, value, (n.Ramp(at, ops.const(1), 2),)))
        return seq(*found)


def _place(stage: PrimExpr, shape: tuple[int, int], row: PrimExpr, chunk: PrimExpr) -> PrimExpr:
    """Where a chunk of a tile's row starts in shared memory: chunks of neighbouring rows change places."""
    rows, width = shape
    chunks = width // _CHUNK
    turns = min(chunks & -chunks, 8)  # a power of two that divides them
    turn = ops.floormod(ops.floordiv(row, 8 // turns), turns)
    return (stage * rows + row) * width + (chunk ^ turn) * _CHUNK


def _run(call: PrimExpr) -> Stmt:
    return n.Evaluate(call)


def _unrolled(name: str, extent: int, body: Callable[[n.Var], Stmt]) -> Stmt:
    var = n.Var(name, "int32")
    return n.For(var, ops.const(0), ops.const(extent), ForKind.UNROLLED, body(var))
