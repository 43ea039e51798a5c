"""Warpgroups: products, copies of tiles and barriers in memory as the interpreter does them, and as PTX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact, lower
from compiler.errors import CodegenError, IRError, LoweringError
from compiler.interp import threads as interp_threads
from compiler.interp.thread_blocks import DivergentBarrier
from compiler.interp.thread_memory import RaceError
from compiler.ir.base import Node
from compiler.ir.structural import structural_equal
from compiler.ir.visit import map_children, replace
from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import Tensor
from compiler.tensorcore.warp_match import warp_product
from compiler.tensorcore.warp_products import lower_warp_products
from compiler.tensorcore.warpgroup import Matrix, WarpgroupTile, dense, matrices
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import ptx_warpgroup as ptx
from compiler.tir.intrin.gpu import tvm_storage_sync
from compiler.tir.visit import seq
from tests.kit.gpu.checks import PTXAS, assemble
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate
from tuner.workloads import WorkloadSpec

TINY = WarpgroupTile(64, 16, groups=1, stages=2, blocks=2, raster=2)
WIDE = WarpgroupTile(128, 64, groups=2, stages=3, blocks=1)


def operands(m: int, n_: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, which every dtype multiplies exactly."""
    rng = np.random.default_rng(7)
    return rng.integers(-4, 5, (m, k)).astype(np.float32), rng.integers(-4, 5, (n_, k)).astype(np.float32)


def run(func: n.PrimFunc, *inputs: np.ndarray, dtype: str = "float16", out_dtype: str = "float32") -> np.ndarray:
    """Return a kernel's result for 16-bit inputs; its output comes last."""
    shape = list(func.buffer_map.values())[-1].shape
    out = np.zeros([ops.as_int(extent) or 0 for extent in shape], np.float32 if out_dtype == "bfloat16" else out_dtype)
    interp_threads.run(func, *(x if dtype == "bfloat16" else x.astype(dtype) for x in inputs), out)
    return out


@pytest.mark.parametrize(
    ("tile", "sizes", "dtype", "transposed"),
    [
        (TINY, (64, 16, 64), "float16", True),
        (TINY, (72, 24, 200), "float16", True),  # edges of all three; a block takes several tiles
        (WIDE, (136, 72, 72), "bfloat16", False),
    ],
)
def test_a_product_is_exact_and_without_a_race(
    tile: WarpgroupTile, sizes: tuple[int, int, int], dtype: str, transposed: bool
) -> None:
    x, w = operands(*sizes)
    out_dtype = dtype if transposed else "float32"
    func = dense(*sizes, dtype, tile, transposed=transposed, out_dtype=out_dtype)
    found = run(func, x, w if transposed else w.T.copy(), dtype=dtype, out_dtype=out_dtype)
    np.testing.assert_array_equal(found, (x @ w.T).astype(out_dtype))


def annotated(func: n.PrimFunc, block: str, **tile: int) -> Schedule:
    schedule = Schedule(func)
    for name, value in tile.items():
        schedule.annotate(block, f"warpgroup_tile.{name}", value)
    return schedule


def test_blocks_ask_for_it_with_what_is_made_of_their_sums() -> None:
    a, b = placeholder((64, 64), "float16", name="a"), placeholder((64, 64), "float16", name="b")
    bias = placeholder((64,), "float16", name="bias")
    product = topi.matmul(a, b)
    out = compute((64, 64), lambda i, j: product[i, j] + bias[j], name="out")
    func = create_prim_func([a, b, bias, out])
    schedule = annotated(func, "T_matmul", m=64, n=64, groups=1, stages=2, blocks=1)
    [(_, lowered)] = lower(schedule).items()
    assert "ptx_wgmma_mma_async" in lowered.script()
    x, w = operands(64, 64, 64)
    added = np.arange(64, dtype=np.float32) % 5
    found = run(lowered, x, w, added, out_dtype="float16")
    np.testing.assert_array_equal(found, (x @ w + added).astype(np.float16))
    schedule.annotate("T_matmul", "warpgroup_tile.depth", 64)
    with pytest.raises(LoweringError, match="a tile of warpgroups has"):
        lower(schedule)


def test_its_text_reads_back() -> None:
    func = dense(64, 16, 64, "float16", TINY)
    assert structural_equal(from_source(func.script()), func)


# ------------------------------------------------------------------------------------- what is wrong


def changed(func: n.PrimFunc, name: str, by: Callable[[n.Call], n.PrimExpr | None]) -> n.PrimFunc:
    """`func` with the calls of one operator replaced; by nothing for None."""

    def go(node: Node) -> Node:
        if isinstance(node, n.Evaluate) and isinstance(node.value, n.Call):
            call = node.value
            if getattr(call.op, "name", "") == f"tir.{name}":
                new = by(call)
                return n.Evaluate(n.IntImm("int32", 0) if new is None else new)
        return map_children(node, go)

    body = go(func.body)
    assert isinstance(body, n.Stmt)
    return func.with_body(body)


def nothing(call: n.Call) -> None:
    return None


def with_argument(position: int, value: int) -> Callable[[n.Call], n.PrimExpr]:
    def by(call: n.Call) -> n.PrimExpr:
        args = list(call.args)
        args[position] = n.IntImm("int32", value)
        return replace(call, args=tuple(args))

    return by


@pytest.mark.parametrize(
    ("name", "by", "error", "words"),
    [
        ("ptx_mbarrier_wait_parity", nothing, RaceError, "warp 0 multiplies what a copy brought, and has not waited"),
        ("ptx_wgmma_fence", nothing, LoweringError, "without ptx_wgmma_fence"),
        ("ptx_fence_mbarrier_init", nothing, LoweringError, "without ptx_fence_mbarrier_init"),
        ("tvm_storage_sync", nothing, RaceError, "no barrier of the block between"),
        ("ptx_mbarrier_init", nothing, LoweringError, "before ptx_mbarrier_init made it one"),
        (
            "ptx_mbarrier_init",
            with_argument(2, 1),
            DivergentBarrier,
            "waits for a phase of full.0. with parity 1 that nothing ends",
        ),
        (
            "ptx_mbarrier_arrive",
            nothing,
            DivergentBarrier,
            "parity 1 that nothing ends: 1 of 1 arrivals and 0 bytes are missing",
        ),
        ("ptx_mbarrier_arrive_expect_tx", with_argument(2, 64), DivergentBarrier, "0 of 1 arrivals and -10176 bytes"),
    ],
)
def test_what_is_left_out_is_found(
    name: str, by: Callable[[n.Call], n.PrimExpr | None], error: type[Exception], words: str
) -> None:
    func = changed(dense(64, 16, 256, "float16", TINY), name, by)
    with pytest.raises(error, match=words):
        run(func, *operands(64, 16, 256))


def test_sums_are_seen_after_they_are_waited_for() -> None:
    func = changed(dense(64, 16, 64, "float16", TINY), "ptx_wgmma_wait_group", nothing)
    assert np.isnan(run(func, *operands(64, 16, 64))).all()


def test_a_stage_is_given_back_when_its_products_are_done() -> None:
    """Stages are released before the wait for their products: nothing overwrites them in time, and yet it is a race."""
    early = changed(dense(64, 16, 320, "float16", TINY), "ptx_wgmma_wait_group", lambda call: (
        None if call.args[0].value else call  # type: ignore[attr-defined]
    ))  # fmt: skip
    with pytest.raises(RaceError, match="a copy begins where warp 0 may still read"):
        run(early, *operands(64, 16, 320))


def stored_product(fence: bool, sync: bool) -> n.PrimFunc:
    """Threads store the operands of a product themselves: ones, so that no order of elements matters."""
    x = n.decl_buffer((64 * 64,), "float16", "x", scope="shared")
    sums, out = n.decl_buffer((4,), "float32", "sums", scope="local"), n.decl_buffer((512,), "float32", "out")
    tx, i = n.Var("tx", "int32"), n.Var("i", "int32")
    filled = n.BufferStore(x, ops.const(1.0, "float16"), (tx * 32 + i,))
    calls = [
        *([ptx.ptx_fence_proxy_async()] if fence else []),
        *([tvm_storage_sync("shared")] if sync else []),
        ptx.ptx_wgmma_fence(),
        ptx.ptx_wgmma_mma_async("float16", 8, x.data, 0, x.data, 0, False, 0, sums.data, 0),
        ptx.ptx_wgmma_commit_group(),
        ptx.ptx_wgmma_wait_group(0, sums.data, 0, 4),
    ]
    body = seq(
        n.For(i, ops.const(0), ops.const(32), n.ForKind.SERIAL, filled),
        *(n.BufferStore(sums, ops.const(0.0, "float32"), (ops.const(j),)) for j in range(4)),
        *map(n.Evaluate, calls),
        *(n.BufferStore(out, n.BufferLoad(sums, (ops.const(j),)), (tx * 4 + j,)) for j in range(4)),
    )
    for buffer in (x, sums):
        body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, ops.const(True), body, buffer.scope)
    axis = n.IterVar(None, n.Var("threadIdx.x", "int32"), n.IterType.THREAD_INDEX, "threadIdx.x")
    body = n.For(tx, ops.const(0), ops.const(128), n.ForKind.THREAD_BINDING, body, axis)
    param = n.Var("p", "handle")
    return n.PrimFunc((param,), body, buffer_map={param: out})


def test_products_of_what_threads_stored_need_a_fence_and_a_barrier() -> None:
    np.testing.assert_array_equal(run(stored_product(True, True)), np.full(512, 16.0))
    with pytest.raises(RaceError, match="without a fence"):
        run(stored_product(False, True))
    with pytest.raises(RaceError, match="no barrier between"):
        run(stored_product(True, False))


# ------------------------------------------------------------------------------------------- PTX


@pytest.mark.parametrize(
    ("tile", "dtype", "transposed"),
    [
        (WarpgroupTile(), "bfloat16", True),
        (WarpgroupTile(256, 128, stages=3), "float16", False),
        (WarpgroupTile(64, 192, groups=1, stages=5), "float16", True),
    ],
)
def test_ptx(tile: WarpgroupTile, dtype: str, transposed: bool) -> None:
    artifact = compile_artifact(dense(4096, 4000, 4096, dtype, tile, transposed=transposed), "cuda -arch=sm_90a")
    text = artifact.blobs["ptx"].decode()
    kind = {"float16": "f16", "bfloat16": "bf16"}[dtype]
    assert text.count(f"wgmma.mma_async.sync.aligned.m64n{tile.n}k16.f32.{kind}.{kind}") == 4 * tile.products
    assert text.count("setmaxnreg") == (2 if tile.groups == 2 else 0)
    [launch] = artifact.entries[0].launches
    assert launch.grid == ("132", "1", "1")
    assert launch.block == (32, 4 * (tile.groups + 1), 1)
    assert launch.shared_bytes == tile.shared_bytes
    assert [m.box for m in launch.tensor_maps] == [(tile.m, 64), (tile.n if transposed else 64, 64)]
    said = assemble(artifact.blobs["ptx"], "sm_90a")
    if PTXAS is not None:
        assert "0 bytes stack frame, 0 bytes spill stores" in said
        assert "serializ" not in said  # products that wait for each other, as ptxas warns
        assert "setmaxnreg" not in said  # nor are the limits ignored


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(CodegenError, match=r"sm_90 has no tir\.ptx_cp_async_bulk_tensor"):
        compile_artifact(dense(64, 16, 64, "float16", TINY), "cuda -arch=sm_90")
    with pytest.raises(CodegenError, match="needs 294912 bytes of shared memory a block; sm_90a has 232448"):
        compile_artifact(dense(256, 256, 64, "float16", WarpgroupTile(stages=6)), "cuda -arch=sm_90a")
    with pytest.raises(IRError, match="no kernel of warpgroups is made of"):
        dense(64, 16, 64, "float16", WarpgroupTile(256, 256))  # 256 sums of each thread
    with pytest.raises(IRError, match="rows of a multiple of 8 elements"):
        dense(64, 16, 60, "float16", TINY)
    with pytest.raises(IRError, match="not int8"):
        dense(64, 16, 64, "int8", TINY)
    data = n.Var("data", "handle")
    with pytest.raises(IRError, match="copies no 64 x 32"):
        ptx.ptx_cp_async_bulk_tensor("float16", data, 0, data, 0, 0, (64, 64), (64, 32), data, 0)
    with pytest.raises(IRError, match="12 columns"):
        ptx.ptx_wgmma_mma_async("float16", 12, data, 0, data, 0, False, 0, data, 0)
    with pytest.raises(IRError, match="cannot ask for 20 registers"):
        ptx.ptx_setmaxnreg(True, 20)


def test_which_products_warpgroups_compute() -> None:
    def of(*tensors: Tensor) -> tuple[Matrix, Matrix] | None:
        product = warp_product(create_prim_func(list(tensors)))
        assert product is not None
        return matrices(product)

    a, b = placeholder((64, 128), "float16", name="a"), placeholder((128, 32), "float16", name="b")
    found = of(a, b, topi.matmul(a, b))
    assert found is not None
    assert [(m.shape, m.transposed) for m in found] == [((64, 128), False), ((128, 32), True)]
    square = placeholder((64, 64), "float16", name="square")
    product = topi.matmul(square, b := placeholder((64, 64), "float16", name="b"))
    assert of(square, b, topi.add(product, square)) is None  # an operand is used otherwise, too
    odd = placeholder((128, 36), "float16", name="odd")
    assert of(a, odd, topi.matmul(a, odd)) is None  # rows of 72 bytes
    x, y = placeholder((2, 64, 64), "float16", name="x"), placeholder((2, 64, 64), "float16", name="y")
    assert of(x, y, topi.batch_matmul(x, y)) is None


def test_the_search_space_has_them_where_they_are() -> None:
    func = WorkloadSpec.parse("matmul:4096,4096,4096:float16").prim_func()
    assert [sketch.name for sketch in generate(func, Target("cuda -arch=sm_90"))] == ["mma"]
    sketch, other = generate(func, Target("cuda -arch=sm_90a"))
    assert (sketch.name, other.name) == ("wgmma", "mma")
    points = [p for p in np.ndindex(*(len(d.values) for d in sketch.decisions)) if sketch.is_allowed(p)]
    best = sketch.values(max(points, key=sketch.score))
    assert best["m"] * best["n"] >= 128 * 192  # the more of a tile, the less is copied for each product
    for values in map(sketch.values, points):
        tile = WarpgroupTile(values["m"], values["n"], groups=values["groups"], stages=values["stages"])
        assert tile.shared_bytes <= 227 << 10
    scheduled = at_point(func, sketch, points[0])
    assert "ptx_wgmma_mma_async" in lower_warp_products(scheduled).script()
    odd = WorkloadSpec.parse("matmul:4095,4095,4095:float16").prim_func()
    assert [sketch.name for sketch in generate(odd, Target("cuda -arch=sm_90a"))] == ["mma"]
