"""Matrix products on Hopper's tensor cores (sm_90a), written as a kernel.

One thread lets the tensor memory accelerator fill a ring of stages in shared memory. Warpgroups multiply what has
arrived (`wgmma`). Barriers in memory say which stages are full and which are empty.

A block makes one tile of results after the other. While its warpgroups store one, the next one's stages fill.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.arith.affine import as_affine
from compiler.errors import IRError
from compiler.ir.visit import walk
from compiler.tensorcore.warp_form import Group, WarpOperand, WarpProduct, size_of
from compiler.tensorcore.warp_kernel import in_threads, plain_function, run
from compiler.tensorcore.warp_store import Results
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import ptx_warpgroup as ptx
from compiler.tir.intrin.gpu import WARP, tvm_storage_sync
from compiler.tir.intrin.ptx_warpgroup import DEPTH, MOST_BOX, ROW, ROWS, WARPGROUP
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq

_WARPS = WARPGROUP // WARP
_MOST_SUMS = 192  # of a thread: the rest of its registers is for addresses
# Registers of a copying and of a multiplying thread, by warpgroups that multiply: 65,536 in all. (With one of those
# there are enough for all alike.)
_REGISTERS = {2: (40, 232)}
_EVEN = 8  # elements: rows of matrices start at multiples of 16 bytes


@dataclass(frozen=True, slots=True)
class WarpgroupTile:
    """A tile: a block computes `m` x `n` results at a time, by `groups` warpgroups along m.
    It sums `k` products of each in a step. Shared memory holds `stages` steps. At most `blocks` blocks share the
    tiles; `raster` rows of tiles are made together, so that their operands are found in the second-level cache."""

    m: int = 128
    n: int = 256
    k: int = 64
    groups: int = 2
    stages: int = 4
    blocks: int = 132
    raster: int = 8

    @property
    def threads(self) -> int:
        """The threads of the warpgroups that multiply, and of the one that copies."""
        return WARPGROUP * (self.groups + 1)

    @property
    def products(self) -> int:
        """Along m, of one warpgroup."""
        return self.m // (ROWS * self.groups)

    @property
    def sums(self) -> int:
        """The sums of a thread."""
        return self.products * self.n // 2

    @property
    def shared_bytes(self) -> int:
        """Return the bytes of shared memory, barriers included.
        Each kind is rounded up as the pieces of shared memory are."""
        return 2 * self.stages * (self.m + self.n) * self.k + 2 * ptx.ALIGN

    def check(self, *, transposed: bool = False) -> None:
        """Raise IRError for an unsupported tile.
        `transposed`: the second operand lies in rows along n."""
        columns = ROW if transposed else 8
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


@dataclass(frozen=True, slots=True)
class Matrix:
    """An operand that lies in memory as a matrix: rows of its own axis along k, or the other way round.
    The other way round it is `transposed`: rows of k along its own axis."""

    buffer: n.Buffer
    shape: tuple[int, int]
    transposed: bool


def matrices(product: WarpProduct) -> tuple[Matrix, Matrix] | None:
    """Return the operands of a product that warpgroups compute; None for another product.
    It must be of float16 or bfloat16 matrices. The first lies along k, with rows that start at multiples of 16
    bytes."""
    left, right = _matrix(product.left, product.m, product), _matrix(product.right, product.n, product)
    if product.b or left is None or right is None or left.transposed or left.buffer.data is right.buffer.data:
        return None
    read = {node.buffer.data for node in walk(product.value) if isinstance(node, n.BufferLoad)}
    if read & {left.buffer.data, right.buffer.data}:
        return None  # the kernel has no address of them
    return left, right


def _matrix(operand: WarpOperand, own: Group, product: WarpProduct) -> Matrix | None:
    axes = (*own, *product.k)
    found = as_affine(operand.index, [axis.var for axis in axes])
    if operand.valid or found is None or not ops.is_const(found[1], 0) or operand.buffer.dtype not in ptx.DTYPES:
        return None
    rows, depth, buffer = size_of(own), size_of(product.k), operand.buffer
    size = 1
    for extent in buffer.shape:
        size *= ops.as_int(extent) or 0
    steps = _step(own, found[0][: len(own)]), _step(product.k, found[0][len(own) :])
    if size != rows * depth or (steps != (depth, 1) and steps != (1, rows)):
        return None
    transposed = steps != (depth, 1)
    shape = (depth, rows) if transposed else (rows, depth)
    return None if shape[1] % _EVEN else Matrix(buffer, shape, transposed)


def _step(group: Group, steps: Sequence[int]) -> int | None:
    """How far apart neighbours along fused axes are; None where that differs."""
    step = steps[-1] if steps else 0
    extent = 1
    for axis, own in zip(reversed(group), reversed(steps)):
        if axis.extent > 1 and own != step * extent:
            return None
        extent *= axis.extent
    return step


def dense(
    m: int, n_: int, k: int, dtype: str = "float16", tile: WarpgroupTile | None = None, *, transposed: bool = True,
    out_dtype: str | None = None,
) -> n.PrimFunc:  # fmt: skip
    """C[m, n] = X[m, k] W[n, k]^T, or X[m, k] W[k, n] where W is not `transposed`.

    X and W are "float16" or "bfloat16", the sums float32, and C is of `out_dtype`, rounded once. Tiles may reach
    over the edges.

    The function is lowered; its parameters are X, W, C. Raises IRError for impossible sizes or tiles.
    """
    if dtype not in ptx.DTYPES:
        raise IRError(f"warpgroups multiply float16 or bfloat16 here, not {dtype}")
    chosen = WarpgroupTile() if tile is None else tile
    return plain_function((m, n_, k), dtype, out_dtype, transposed, lambda product: kernel(product, chosen))


def kernel(product: WarpProduct, tile: WarpgroupTile) -> Stmt:
    """Return what computes a product, as a function's body.
    Raises IRError for an invalid tile, and for other products than `matrices` describes."""
    found = matrices(product)
    if found is None:
        raise IRError(
            f"warpgroups do not compute this product of {product.left.buffer.name} and {product.right.buffer.name}",
            hint="one of two float16 or bfloat16 matrices, the first with rows along the sum, rows of a multiple of "
            f"{_EVEN} elements",
        )
    tile.check(transposed=found[1].transposed)
    return _Kernel(product, found, tile).body()


class _Kernel:
    """Writes the kernel. Thread x is the lane of a warp, y the warp; the last warpgroup copies."""

    def __init__(self, product: WarpProduct, operands: tuple[Matrix, Matrix], tile: WarpgroupTile) -> None:
        self.product, self.tile, self.operands = product, tile, operands
        self.lane, self.warp, self.block = (n.Var(name, "int32") for name in ("lane", "warp", "block"))
        self.shared = tuple(
            n.decl_buffer((tile.stages * size * tile.k,), x.buffer.dtype, f"{x.buffer.name}_shared", scope="shared")
            for x, size in zip(operands, (tile.m, tile.n))
        )
        self.full, self.empty = (
            n.decl_buffer((tile.stages,), "uint64", name, scope="shared") for name in ("full", "empty")
        )
        self.sums = n.decl_buffer((tile.sums,), "float32", "sums", scope="local")
        _, m, n_, k = product.sizes
        self.steps = -(-k // tile.k)
        self.tiles = -(-m // tile.m), -(-n_ // tile.n)
        self.blocks = min(tile.blocks, self.tiles[0] * self.tiles[1])

    def body(self) -> Stmt:
        groups = self.tile.groups
        body: Stmt = n.IfThenElse(self.warp < _WARPS * groups, self._multiplying(), self._copying())
        body = seq(self._barriers(), run(tvm_storage_sync("shared")), body)
        held = (self.empty, self.full, *reversed(self.shared), self.sums)
        axes = (
            (self.warp, "threadIdx.y", _WARPS * (groups + 1)), (self.lane, "threadIdx.x", WARP),
            (self.block, "blockIdx.x", self.blocks),
        )  # fmt: skip
        return in_threads(body, held, axes)

    def _barriers(self) -> Stmt:
        """Make the barriers of stages.
        A stage is full by one arrival and its bytes, and empty when each multiplying warp says so."""
        made = [
            run(ptx.ptx_mbarrier_init(buffer.data, stage, count))
            for stage in range(self.tile.stages)
            for buffer, count in ((self.full, 1), (self.empty, _WARPS * self.tile.groups))
        ]
        first = ops.logical_and(ops.equal(self.warp, 0), ops.equal(self.lane, 0))
        return n.IfThenElse(first, seq(*made, run(ptx.ptx_fence_mbarrier_init())))

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
        """The first row and column of the block's tile.
        Tiles go down `raster` rows, then to the right."""
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
        return [] if counts is None else [run(ptx.ptx_setmaxnreg(multiplying, counts[multiplying]))]

    # ------------------------------------------------------------------------------------ copying

    def _copying(self) -> Stmt:
        tile = self.tile
        turn, step = n.Var("turn", "int32"), n.Var("step", "int32")
        row, column = self._corner(turn)
        stage, parity = self._round(turn, step)
        at = step * tile.k
        copies = [*self._copy(0, stage, tile.m, row, at), *self._copy(1, stage, tile.n, column, at)]
        bytes_ = 2 * (tile.m + tile.n) * tile.k
        body = seq(
            run(ptx.ptx_mbarrier_wait_parity(self.empty.data, stage, 1 - parity)),
            run(ptx.ptx_mbarrier_arrive_expect_tx(self.full.data, stage, bytes_)),
            *copies,
        )
        steps = n.For(step, ops.const(0), ops.const(self.steps), ForKind.SERIAL, body)
        one = ops.logical_and(ops.equal(self.warp, _WARPS * tile.groups), ops.equal(self.lane, 0))
        return seq(*self._registers(False), n.IfThenElse(one, self._each_tile(turn, [steps])))

    def _copy(self, which: int, stage: PrimExpr, size: int, own: PrimExpr, k: PrimExpr) -> list[Stmt]:
        """Begin to copy `size` rows of an operand's step to a stage.
        A transposed one goes in parts of 64 of its columns."""
        matrix, target, depth = self.operands[which], self.shared[which].data, self.tile.k
        start = stage * (size * depth)
        if matrix.transposed:
            parts = [(start + part * depth, k, own + part, depth) for part in range(0, size, ROW)]
        else:
            parts = [(start, own, k, size)]
        return [
            run(
                ptx.ptx_cp_async_bulk_tensor(
                    matrix.buffer.dtype, target, to, matrix.buffer.data, row, column, matrix.shape, (rows, ROW),
                    self.full.data, stage,
                )
            )
            for to, row, column, rows in parts
        ]  # fmt: skip

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
            run(ptx.ptx_mbarrier_wait_parity(self.full.data, stage, parity)),
            run(ptx.ptx_wgmma_fence()),
            *products,
            run(ptx.ptx_wgmma_commit_group()),
            run(ptx.ptx_wgmma_wait_group(1, self.sums.data)),  # the products of the step before are done
            n.IfThenElse(step > 0, self._release(before)),
        )
        i = n.Var("i", "int32")
        zero = n.BufferStore(self.sums, ops.const(0.0, "float32"), (i,))
        work = [
            n.For(i, ops.const(0), ops.const(self.tile.sums), ForKind.UNROLLED, zero),
            n.For(step, ops.const(0), ops.const(self.steps), ForKind.SERIAL, body),
            run(ptx.ptx_wgmma_wait_group(0, self.sums.data, 0, self.tile.sums)),
            self._release(last),
            self._store(*self._corner(turn)),
        ]
        return seq(*self._registers(True), self._each_tile(turn, work))

    def _release(self, stage: PrimExpr) -> Stmt:
        """This warp is done with a stage."""
        return n.IfThenElse(ops.equal(self.lane, 0), run(ptx.ptx_mbarrier_arrive(self.empty.data, stage)))

    def _multiply(self, stage: PrimExpr, product: int, k: int) -> Stmt:
        """64 rows of this warpgroup times all columns, 16 elements along k from element `k` of the stage on."""
        tile = self.tile
        group = ops.floordiv(self.warp, _WARPS)
        row = group * (tile.products * ROWS) + product * ROWS
        a = (stage * tile.m + row) * tile.k + k
        dtype, transposed = self.operands[1].buffer.dtype, self.operands[1].transposed
        b = stage * (tile.n * tile.k) + (k * ROW if transposed else k)
        x, w = (buffer.data for buffer in self.shared)
        call = ptx.ptx_wgmma_mma_async(
            dtype, tile.n, x, a, w, b, transposed, ROW * tile.k, self.sums.data, product * tile.n // 2
        )
        return run(call)

    def _store(self, first_row: PrimExpr, first_column: PrimExpr) -> Stmt:
        """Each thread's pairs of results, and what is made of them."""
        tile = self.tile
        results = Results(self.product, {}, self.sums, (tile.m, tile.n))
        group, warp = ops.floordiv(self.warp, _WARPS), ops.floormod(self.warp, _WARPS)
        row = first_row + group * (tile.products * ROWS) + warp * 16 + ops.floordiv(self.lane, 4)
        pair = ops.floordiv(first_column, 2) + ops.floormod(self.lane, 4)
        found: list[Stmt] = []
        for product in range(tile.products):
            for half in range(2):
                start = product * tile.n // 2 + 2 * half
                pairs = [(pair + 4 * j, start + 4 * j) for j in range(tile.n // 8)]
                found.append(results.row(row + (product * ROWS + half * 8), pairs))
        return seq(*found)
