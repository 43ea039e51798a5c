"""Matrix products on Hopper's tensor cores (sm_90a), written as a kernel: one thread lets the tensor memory accelerator
fill a ring of stages in shared memory, warpgroups multiply what has arrived (`wgmma`), and barriers in memory say which
stages are full and which are empty.

A block makes one tile of results after the other; while its warpgroups store one, the next one's stages fill.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.errors import IRError
from compiler.lower.inject_barriers import OWN_BARRIERS
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir import ptx_warpgroup as ptx
from compiler.tir.gpu_intrin import WARP, tvm_storage_sync
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.ptx_warpgroup import DEPTH, MOST_BOX, ROW, ROWS, WARPGROUP
from compiler.tir.visit import seq

_WARPS = WARPGROUP // WARP
_MOST_SUMS = 192  # of a thread: the rest of its registers is for addresses
# Registers of a copying and of a multiplying thread, by warpgroups that multiply: 65,536 in all. (With one of those
# there are enough for all alike.)
_REGISTERS = {2: (40, 232)}
_EVEN = 8  # elements: rows of matrices start at multiples of 16 bytes


@dataclass(frozen=True, slots=True)
class WarpgroupTile:
    """A block computes `m` x `n` results at a time, `k` products of each in a step, by `groups` warpgroups along m.
    Shared memory holds `stages` steps. At most `blocks` blocks share the tiles; `raster` rows of tiles are made
    together, so that their operands are found in the second-level cache."""

    m: int = 128
    n: int = 256
    k: int = 64
    groups: int = 2
    stages: int = 4
    blocks: int = 132
    raster: int = 8

    @property
    def threads(self) -> int:
        """Of the warpgroups that multiply, and of the one that copies."""
        return WARPGROUP * (self.groups + 1)

    @property
    def products(self) -> int:
        """Along m, of one warpgroup."""
        return self.m // (ROWS * self.groups)

    @property
    def sums(self) -> int:
        """Of a thread."""
        return self.products * self.n // 2

    @property
    def shared_bytes(self) -> int:
        """With the barriers, each kind of which is rounded up as the pieces of shared memory are."""
        return 2 * self.stages * (self.m + self.n) * self.k + 2 * ptx.ALIGN

    def check(self, m: int, n: int, k: int, *, transposed: bool = True) -> None:
        """Raise IRError unless a product of this size can be made of such tiles."""
        columns = ROW if not transposed else 8
        possible = (
            self.groups in (1, 2)
            and self.m > 0
            and self.m % (ROWS * self.groups) == 0
            and self.m <= MOST_BOX
            and 8 <= self.n <= 256
            and self.n % columns == 0
            and self.k == ROW
            and self.stages >= 2
            and self.blocks >= 1
            and self.raster >= 1
            and self.sums <= _MOST_SUMS
        )
        if not possible:
            raise IRError(
                f"no kernel of warpgroups is made of {self}",
                hint=f"m in {ROWS} for each of 1 or 2 groups, n in {columns} up to 256, k = {ROW}, 2 or more stages, "
                f"{_MOST_SUMS} sums of a thread at most",
            )
        if n % _EVEN or k % _EVEN:
            raise IRError(
                f"a {m} x {n} x {k} product has rows that do not start at multiples of 16 bytes",
                hint=f"n and k are multiples of {_EVEN}; m may be any",
            )


def dense(
    m: int,
    n_: int,
    k: int,
    dtype: str = "float16",
    tile: WarpgroupTile | None = None,
    *,
    transposed: bool = True,
    out_dtype: str = "float32",
) -> n.PrimFunc:
    """C[m, n] = X[m, k] W[n, k]^T, or X[m, k] W[k, n] where W is not `transposed`: X and W "float16" or "bfloat16", the
    sums float32, C `out_dtype`, rounded once. Tiles may reach over the edges.

    The function is lowered; its parameters are X, W, C. Raises IRError for sizes or a tile that cannot be.
    """
    chosen = WarpgroupTile() if tile is None else tile
    chosen.check(m, n_, k, transposed=transposed)
    if dtype not in ptx.DTYPES:
        raise IRError(f"warpgroups multiply float16 or bfloat16 here, not {dtype}")
    if out_dtype not in ("float32", dtype):
        raise IRError(f"a product of {dtype} is float32 or {dtype}, not {out_dtype}")
    return _Dense(m, n_, k, dtype, chosen, transposed, out_dtype).function()


class _Dense:
    """Writes the kernel. Thread x is the lane of a warp, y the warp; the last warpgroup copies."""

    def __init__(
        self, m: int, n_: int, k: int, dtype: str, tile: WarpgroupTile, transposed: bool, out_dtype: str
    ) -> None:
        self.sizes, self.tile, self.dtype, self.transposed = (m, n_, k), tile, dtype, transposed
        self.shapes = (m, k), (n_, k) if transposed else (k, n_)
        shapes = (("X", self.shapes[0], dtype), ("W", self.shapes[1], dtype), ("C", (m, n_), out_dtype))
        self.args = [n.decl_buffer(shape, kind, name) for name, shape, kind in shapes]
        self.lane, self.warp, self.block = (n.Var(name, "int32") for name in ("lane", "warp", "block"))
        self.x, self.w = (
            n.decl_buffer((tile.stages * size * tile.k,), dtype, f"{name}_shared", scope="shared")
            for name, size in (("X", tile.m), ("W", tile.n))
        )
        self.full, self.empty = (
            n.decl_buffer((tile.stages,), "uint64", name, scope="shared") for name in ("full", "empty")
        )
        self.sums = n.decl_buffer((tile.sums,), "float32", "sums", scope="local")
        self.steps = -(-k // tile.k)
        self.tiles = -(-m // tile.m), -(-n_ // tile.n)
        self.blocks = min(tile.blocks, self.tiles[0] * self.tiles[1])

    def function(self) -> n.PrimFunc:
        groups = self.tile.groups
        body: Stmt = n.IfThenElse(self.warp < _WARPS * groups, self._multiplying(), self._copying())
        body = seq(self._barriers(), _run(tvm_storage_sync("shared")), body)
        for buffer in (self.empty, self.full, self.w, self.x, self.sums):
            body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, ops.const(True), body, buffer.scope)
        bound = (
            (self.warp, "threadIdx.y", _WARPS * (groups + 1)), (self.lane, "threadIdx.x", WARP),
            (self.block, "blockIdx.x", self.blocks),
        )  # fmt: skip
        for var, tag, extent in bound:
            axis = n.IterVar(None, n.Var(tag, "int32"), n.IterType.THREAD_INDEX, tag)
            body = n.For(var, ops.const(0), ops.const(extent), ForKind.THREAD_BINDING, body, axis)
        params = tuple(n.Var(f"var_{buffer.name}", "handle") for buffer in self.args)
        attrs = {"tir.noalias": True, OWN_BARRIERS: True}
        return n.PrimFunc(params, body, buffer_map=dict(zip(params, self.args)), attrs=attrs)

    def _barriers(self) -> Stmt:
        """A stage is full by one arrival and its bytes, empty when each warp that multiplies says so."""
        made = [
            _run(ptx.ptx_mbarrier_init(buffer.data, stage, count))
            for stage in range(self.tile.stages)
            for buffer, count in ((self.full, 1), (self.empty, _WARPS * self.tile.groups))
        ]
        first = ops.logical_and(ops.equal(self.warp, 0), ops.equal(self.lane, 0))
        return n.IfThenElse(first, seq(*made, _run(ptx.ptx_fence_mbarrier_init())))

    # ---------------------------------------------------------------------------------- the tiles

    def _each_tile(self, turn: n.Var, body: list[Stmt]) -> Stmt:
        """`body` for the tiles of this block: each `blocks`-th."""
        count = self.tiles[0] * self.tiles[1]
        turns = -(-count // self.blocks)
        work = seq(*body)
        if count % self.blocks:
            work = n.IfThenElse(turn * self.blocks + self.block < count, work)
        return n.For(turn, ops.const(0), ops.const(turns), ForKind.SERIAL, work)

    def _corner(self, turn: n.Var) -> tuple[PrimExpr, PrimExpr]:
        """The first row and column of the block's tile: down `raster` tiles, then to the right."""
        across, along = self.tiles
        number = turn * self.blocks + self.block
        raster = min(self.tile.raster, across)
        band, within = ops.floordiv(number, raster * along), ops.floormod(number, raster * along)
        height: PrimExpr = ops.const(raster)
        if across % raster:
            height = ops.minimum(raster, across - band * raster)
        row = band * raster + ops.floormod(within, height)
        return row * self.tile.m, ops.floordiv(within, height) * self.tile.n

    def _round(self, turn: n.Var, step: n.Var) -> tuple[PrimExpr, PrimExpr]:
        """The stage of a step, and the parity of its use of that stage."""
        number = turn * self.steps + step
        return ops.floormod(number, self.tile.stages), ops.floormod(ops.floordiv(number, self.tile.stages), 2)

    def _registers(self, multiplying: bool) -> list[Stmt]:
        counts = _REGISTERS.get(self.tile.groups)
        return [] if counts is None else [_run(ptx.ptx_setmaxnreg(multiplying, counts[multiplying]))]

    # ------------------------------------------------------------------------------------ copying

    def _copying(self) -> Stmt:
        tile = self.tile
        turn, step = n.Var("turn", "int32"), n.Var("step", "int32")
        row, column = self._corner(turn)
        stage, parity = self._round(turn, step)
        at = step * tile.k
        copies = [self._copy(0, stage * (tile.m * tile.k), row, at, tile.m, stage)]
        start = stage * (tile.n * tile.k)
        if self.transposed:
            copies.append(self._copy(1, start, column, at, tile.n, stage))
        else:
            parts = range(0, tile.n, ROW)
            copies += [self._copy(1, start + part * tile.k, at, column + part, tile.k, stage) for part in parts]
        bytes_ = 2 * (tile.m + tile.n) * tile.k
        body = seq(
            _run(ptx.ptx_mbarrier_wait_parity(self.empty.data, stage, 1 - parity)),
            _run(ptx.ptx_mbarrier_arrive_expect_tx(self.full.data, stage, bytes_)),
            *copies,
        )
        steps = n.For(step, ops.const(0), ops.const(self.steps), ForKind.SERIAL, body)
        one = ops.logical_and(ops.equal(self.warp, _WARPS * tile.groups), ops.equal(self.lane, 0))
        return seq(*self._registers(False), n.IfThenElse(one, self._each_tile(turn, [steps])))

    def _copy(self, which: int, at: PrimExpr, row: PrimExpr, column: PrimExpr, rows: int, stage: PrimExpr) -> Stmt:
        """Begin to copy `rows` rows of one operand from (row, column) on."""
        target, source, shape = (self.x, self.w)[which].data, self.args[which].data, self.shapes[which]
        box = (rows, ROW)
        return _run(
            ptx.ptx_cp_async_bulk_tensor(self.dtype, target, at, source, row, column, shape, box, self.full.data, stage)
        )

    # ---------------------------------------------------------------------------------- computing

    def _multiplying(self) -> Stmt:
        turn, step = n.Var("turn", "int32"), n.Var("step", "int32")
        stage, parity = self._round(turn, step)
        before, _ = self._round(turn, step - 1)  # type: ignore[arg-type]
        last, _ = self._round(turn, ops.const(self.steps - 1))  # type: ignore[arg-type]
        products = [
            self._multiply(stage, product, k)
            for k in range(0, self.tile.k, DEPTH)
            for product in range(self.tile.products)
        ]
        body = seq(
            _run(ptx.ptx_mbarrier_wait_parity(self.full.data, stage, parity)),
            _run(ptx.ptx_wgmma_fence()),
            *products,
            _run(ptx.ptx_wgmma_commit_group()),
            _run(ptx.ptx_wgmma_wait_group(1, self.sums.data)),  # the products of the step before are done
            n.IfThenElse(step > 0, self._release(before)),
        )
        i = n.Var("i", "int32")
        zero = n.BufferStore(self.sums, ops.const(0.0, "float32"), (i,))
        work = [
            n.For(i, ops.const(0), ops.const(self.tile.sums), ForKind.UNROLLED, zero),
            n.For(step, ops.const(0), ops.const(self.steps), ForKind.SERIAL, body),
            _run(ptx.ptx_wgmma_wait_group(0, self.sums.data, 0, self.tile.sums)),
            self._release(last),
            self._store(*self._corner(turn)),
        ]
        return seq(*self._registers(True), self._each_tile(turn, work))

    def _release(self, stage: PrimExpr) -> Stmt:
        """This warp is done with a stage."""
        return n.IfThenElse(ops.equal(self.lane, 0), _run(ptx.ptx_mbarrier_arrive(self.empty.data, stage)))

    def _multiply(self, stage: PrimExpr, product: int, k: int) -> Stmt:
        """64 rows of this warpgroup times all columns, 16 elements along k from element `k` of the stage on."""
        tile = self.tile
        group = ops.floordiv(self.warp, _WARPS)
        row = group * (tile.products * ROWS) + product * ROWS
        a = (stage * tile.m + row) * tile.k + k
        b = stage * (tile.n * tile.k) + (k if self.transposed else k * ROW)
        return _run(
            ptx.ptx_wgmma_mma_async(
                self.dtype, tile.n, self.x.data, a, self.w.data, b, not self.transposed, ROW * tile.k,
                self.sums.data, product * tile.n // 2,
            )
        )  # fmt: skip

    def _store(self, first_row: PrimExpr, first_column: PrimExpr) -> Stmt:
        """Each thread's pairs of results, those inside the matrix."""
        (m, n_, _), tile = self.sizes, self.tile
        out = n.Buffer("C", self.args[2].data, (ops.const(m * n_),), self.args[2].dtype)
        group, warp = ops.floordiv(self.warp, _WARPS), ops.floormod(self.warp, _WARPS)
        row = first_row + group * (tile.products * ROWS) + warp * 16 + ops.floordiv(self.lane, 4)
        column = first_column + ops.floormod(self.lane, 4) * 2
        found: list[Stmt] = []
        for product in range(tile.products):
            for half in range(2):
                here = row + (product * ROWS + half * 8)
                pairs: list[Stmt] = []
                for j in range(tile.n // 8):
                    first = product * tile.n // 2 + 4 * j + 2 * half
                    pair = n.BufferLoad(self.sums, (n.Ramp(ops.const(first), ops.const(1), 2),))
                    at = n.Ramp(here * n_ + column + 8 * j, ops.const(1), 2)
                    store: Stmt = n.BufferStore(out, ops.cast(f"{out.dtype}x2", pair), (at,))
                    pairs.append(n.IfThenElse(column + 8 * j < n_, store) if n_ % tile.n else store)
                found.append(n.IfThenElse(here < m, seq(*pairs)) if m % tile.m else seq(*pairs))
        return seq(*found)


def _run(call: PrimExpr) -> Stmt:
    return n.Evaluate(call)
