"""blockize and tensorize: what they make computes the same, interpreted and compiled; what they refuse, and how."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler.driver import build as driver
from compiler.errors import IRError, ScheduleError
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import LoopRV, Schedule
from compiler.script.entry import from_source
from compiler.tir.intrin.tensor_intrin import TensorIntrin
from compiler.tir.nodes import PrimFunc
from compiler.tir.visit import free_vars
from tests.kit.compiler import tensor_intrins
from tests.kit.compiler.schedules import workloads as w


def matmul_as_numpy(sch: Schedule, m: int, n: int, k: int) -> None:
    """The compiled schedule multiplies matrices as numpy does."""
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
    out = array(np.zeros((m, n), np.float32))
    driver.build(sch.mod, target="llvm")(array(a), array(b), out)
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5)


def tiled(func: PrimFunc, m: int = 4, n: int = 4, k: int = 4) -> tuple[Schedule, LoopRV]:
    """Block C in tiles, and the outermost loop of a tile."""
    sch = Schedule(func)
    i, j, r = sch.get_loops(sch.get_block("C"))
    (i0, i1), (j0, j1), (r0, r1) = (sch.split(loop, [None, f]) for loop, f in ((i, m), (j, n), (r, k)))
    sch.reorder(i0, j0, r0, i1, j1, r1)
    return sch, i1


@pytest.mark.parametrize("shape", [(16, 12, 8), (13, 11, 10), (3, 5, 2)])
@pytest.mark.parametrize("unit", [True, False])
def test_a_tile_becomes_a_block_with_the_init(shape: tuple[int, int, int], unit: bool) -> None:
    func = w.matmul(*shape)
    sch, tile = tiled(func)
    outer = sch.blockize(tile, preserve_unit_iters=unit)
    assert sch.get(outer).name_hint == "C_o"
    [i0, j0, _] = sch.get_loops(outer)
    sch.parallel(sch.fuse(i0, j0))
    w.check_everywhere(sch, func)
    matmul_as_numpy(sch, *shape)


def test_a_whole_reduction_in_a_block() -> None:
    func = w.matmul()
    sch = Schedule(func)
    _, _, k = sch.get_loops(sch.get_block("C"))
    sch.blockize(k, preserve_unit_iters=False)
    w.check_everywhere(sch, func)


def test_neighbouring_blocks_become_one() -> None:
    func = w.chain()
    sch = Schedule(func)
    b, c = sch.get_block("B"), sch.get_block("C")
    sch.compute_at(b, sch.get_loops(c)[0])
    outer = sch.blockize([b, c])
    assert [sch.get(child).name_hint for child in sch.get_child_blocks(outer)] == ["B", "C"]
    w.check_everywhere(sch, func)


def test_a_tile_is_done_by_an_intrinsic() -> None:
    name = tensor_intrins.register_matmul(4, 3, 2)
    func = w.matmul(16, 12, 8)
    sch, tile = tiled(func, 4, 3, 2)
    sch.tensorize(tile, name)
    sch.parallel(sch.get_loops(sch.get_block("C_o"))[0])
    w.check_everywhere(sch, func)
    matmul_as_numpy(sch, 16, 12, 8)


def test_an_intrinsic_works_on_copies_with_another_start() -> None:
    name = tensor_intrins.register_matmul(4, 4, 4)
    func = w.matmul_relu(8, 8, 8)
    sch, tile = tiled(func)
    _, j0, *_ = sch.get_loops(sch.get_block("C"))
    panel = sch.cache_read(sch.get_block("C"), 1, "global")
    sch.compute_at(panel, j0)
    sch.reverse_compute_at(sch.get_block("D"), j0)
    sch.tensorize(tile, name)
    w.check_everywhere(sch, func)


def refused(sch: Schedule, tile: LoopRV, name: str, *texts: str) -> None:
    before = sch.func
    with pytest.raises(ScheduleError) as error:
        sch.tensorize(tile, name)
    assert error.value.message.startswith("tensorize: ")
    assert re.search(r"for i_0 in .*<--|<--", error.value.message)
    for text in texts:
        assert text in error.value.message
    assert sch.func is before


def test_what_differs_from_the_description_is_told() -> None:
    name = tensor_intrins.register_matmul(4, 4, 4)
    sch, tile = tiled(w.matmul(16, 12, 8), 4, 2, 4)
    refused(sch, tile, name, "loop 'j_1' runs 2 times", "of the description 4 times")
    sch, tile = tiled(w.matmul(16, 12, 9))
    refused(sch, tile, name, "block 'C' in the block runs only where v_k_o * 4 + k_1 < 9")
    sch, _ = tiled(w.matmul(16, 16, 16))
    (*_, i1, j1, _) = sch.get_loops(sch.get_block("C"))
    sch.reorder(j1, i1)
    refused(sch, j1, name, "is indexed by")
    sch, tile = tiled(w.matmul(16, 16, 16))
    refused(sch, tile, "no.such", "there is no tensor intrinsic 'no.such'")


def test_blockize_refuses_what_is_no_tile() -> None:
    sch = Schedule(w.matmul(12, 12, 12))
    i, j, _ = sch.get_loops(sch.get_block("C"))
    fused = sch.fuse(i, j)
    _, inner = sch.split(fused, [None, 5])
    with pytest.raises(ScheduleError, match=r"blockize: axis 'v?_?i' of block 'C'.*does not divide"):
        sch.blockize(inner)
    with pytest.raises(ScheduleError, match="it takes one loop, or one or more blocks"):
        sch.blockize([])
    chain = Schedule(w.chain())
    b, d = chain.get_block("B"), chain.get_block("D")
    with pytest.raises(ScheduleError, match="stands among"):
        chain.blockize([b, d])


def test_an_intrinsic_must_fit_its_description() -> None:
    desc = tensor_intrins.update_only(w.matmul(4, 4, 4))
    with pytest.raises(IRError, match="argument 'A' is float32"):
        TensorIntrin.register("test.unfit", desc, w.matmul(4, 4, 5))
    with pytest.raises(IRError, match="there is no tensor intrinsic 'nope'"):
        TensorIntrin.get("nope")
    assert TensorIntrin.get("nope", allow_missing=True) is None


def test_an_order_of_axes_must_have_them_all() -> None:
    sch = Schedule(w.matmul())
    with pytest.raises(ScheduleError, match=r"(?s)reorder_block_iter_var: \[0, 0, 1\] is no order.*'C'.*<--"):
        sch.reorder_block_iter_var(sch.get_block("C"), [0, 0, 1])


def test_nested_parallel_loops_are_refused_across_blocks() -> None:
    sch, tile = tiled(w.matmul(16, 12, 8))
    outer = sch.blockize(tile)
    inner = sch.get_loops(sch.get_block("C"))[0]
    sch.parallel(inner)
    with pytest.raises(ScheduleError, match="is parallel already"):
        sch.parallel(sch.get_loops(outer)[0])


MATCHED = """
@T.prim_func
def main(A: T.Buffer((4, 5)), B: T.Buffer((5, 3)), C: T.Buffer((4, 3))):
    with T.block("root"):
        whole = T.match_buffer(C[0:4, 0:3], (4, 3), strides=("s0", "s1"), offset_factor=1)
        T.reads(C[0:4, 0:3], A[0:4, 0:5], B[0:5, 0:3])
        T.writes(C[0:4, 0:3])
        for i, k in T.grid(4, 5):
            with T.block("row"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(whole[vi, 0:3], A[vi, vk], B[vk, 0:3])
                T.writes(whole[vi, 0:3])
                b = T.match_buffer(B[vk, 0:3], (3,), offset_factor=1)
                c = T.match_buffer(whole[vi, 0:3], (3,), offset_factor=1)
                for j in T.unroll(3):
                    c[j] = c[j] + A[vi, vk] * b[j]
"""


def test_an_intrinsic_may_look_at_its_buffers_through_views() -> None:
    described = tensor_intrins.update_only(w.matmul(4, 3, 5))
    TensorIntrin.register("test.views", described, from_source(MATCHED), override=True)
    func = w.matmul(12, 9, 10)
    s = Schedule(func)
    i, j, k = s.get_loops("C")
    i0, i1 = s.split(i, [None, 4])
    j0, j1 = s.split(j, [None, 3])
    k0, k1 = s.split(k, [None, 5])
    s.reorder(i0, j0, k0, i1, j1, k1)
    s.decompose_reduction("C", k0)
    s.tensorize(i1, "test.views")
    assert s.func.script().count("T.match_buffer(") == 3
    w.check_everywhere(s, func)


def test_an_init_taken_out_of_a_block_of_blocks_knows_its_regions() -> None:
    """In the axes of the block that has them, so that a copy made next finds its place."""
    func = w.blur(10, 2)
    sch = Schedule(func)
    tile = sch.blockize(sch.get_loops(sch.get_block("C"))[1])
    init = sch.decompose_reduction(tile, sch.get_loops(tile)[0])
    for block in (tile, init):
        own = {iv.var for iv in sch.get(block).iter_vars}
        assert all(free_vars(side.min) <= own for region in sch.get(block).writes for side in region.region)
    sch.cache_write(tile, 0, "local")
    w.check_everywhere(sch, func)
