"""Loops annotated with `software_prefetch`: which lines are asked for, how often, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from compiler import topi
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.errors import LoweringError
from compiler.lower.blocks.split_preproc import split_layout_rewrite
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.schedule.core.rv import LoopRV
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tuner.workloads import WorkloadSpec

CPU = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=1")


def product() -> PrimFunc:
    return WorkloadSpec.parse("matmul:4,64,32").prim_func()


def scheduled(distance: int, factors: tuple[int, ...] = (2, 8)) -> Schedule:
    """C[:, tile] += A · B[k, tile] for `tile` of so many vectors, two rows of B at a time."""
    sch = Schedule(product(), seed=0)
    block = sch.get_block("T_matmul")
    i, j, k = sch.get_loops(block)
    tile, vector, lane = sch.split(j, [None, *factors])
    rows, row = sch.split(k, [None, 2])
    sch.reorder(rows, tile, i, row, vector, lane)
    sch.vectorize(lane)
    sch.annotate(tile, "software_prefetch", distance)
    return sch


def fetched(func: PrimFunc) -> list[str]:
    return re.findall(r"T\.prefetch\((.*), 0, 3, 1\)", lower_func(func).script())


def test_each_line_is_asked_for_once():
    assert fetched(scheduled(3).func) == ["B_1[k_0 * 128 + (j_0 + 3) * 16]", "B_1[k_0 * 128 + (j_0 + 3) * 16 + 64]"]


def test_iterations_that_share_a_line_ask_once():
    text = lower_func(scheduled(2, (1, 4)).func).script()
    assert text.count("T.prefetch") == 2
    assert "if j_0 % 4 == 0:" in text


def test_distance_zero_asks_for_nothing():
    assert fetched(scheduled(0).func) == []


def test_a_sampled_distance_is_part_of_the_trace():
    sch = Schedule(product(), seed=0)
    loop = sch.get_loops(sch.get_block("T_matmul"))[2]
    sch.annotate(loop, "software_prefetch", sch.sample_categorical([0, 4], [0.5, 0.5], decision=1))
    again = apply_trace(product(), Trace.from_json(sch.trace.to_json())).func
    assert fetched(again) == fetched(sch.func) != []
    assert fetched(apply_trace(product(), sch.trace.with_decisions([0])).func) == []


def test_a_distance_of_the_whole_loop():
    """A distance of "extent" asks for what the loop reads when it runs next."""
    sch = scheduled(0)
    tile = sch.get_loops(sch.get_block("T_matmul"))[1]
    sch.unannotate(tile, "software_prefetch")
    sch.annotate(tile, "software_prefetch", "extent")
    extent = sch.get(tile).extent
    assert fetched(sch.func) == fetched(scheduled(int(extent)).func) != []
    x, y = placeholder((8, 64), name="X"), placeholder((64,), name="Y")
    added = Schedule(create_prim_func([x, y, topi.add(x, y)]), seed=0)
    added.annotate(added.get_loops(added.get_block("T_add"))[1], "software_prefetch", "extent")
    assert [place.partition("[")[0] for place in fetched(added.func)] == ["X_1"]  # all of Y is near


def test_results_stay_and_the_machine_code_asks():
    func = scheduled(3).func
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (4, 32)).astype("float32"), rng.uniform(-1, 1, (32, 64)).astype("float32")
    held = [array(a), array(b), array(np.empty((4, 64), "float32"))]
    function = load_artifact(compile_artifact(func, Target("llvm"), name="main"))["main"]
    assert function.entry.outputs == (2,)  # what is asked for is not written
    function(*held)
    np.testing.assert_allclose(held[-1].numpy(), a @ b, rtol=1e-4, atol=1e-5)
    asm = compile_artifact(func, CPU, name="main", keep=("asm",)).blobs["asm"].decode()
    assert "prefetcht0" in asm


@pytest.mark.parametrize("distance", [-1, "far"])
def test_a_distance_is_a_number_of_iterations(distance):
    with pytest.raises(LoweringError, match=r"software_prefetch of loop 'j_0.*' is (-1|'far')"):
        lower_func(scheduled(distance).func)


def test_vectors_and_large_iterations_are_refused():
    sch = Schedule(product(), seed=0)
    i, j, _ = sch.get_loops(sch.get_block("T_matmul"))
    sch.annotate(i, "software_prefetch", 1)
    assert len(fetched(sch.func)) == 2  # of A, a row of two lines; B is the same in each iteration
    sch.reorder(j, i)
    sch.annotate(j, "software_prefetch", 1)
    assert len(fetched(sch.func)) == 2 + 32  # and a column of B
    sch.vectorize(i)
    with pytest.raises(LoweringError, match="loop 'i' is vectorized"):
        lower_func(sch.func)
    large = Schedule(WorkloadSpec.parse("matmul:4,64,128").prim_func(), seed=0)
    _, column, _ = large.get_loops(large.get_block("T_matmul"))
    large.annotate(column, "software_prefetch", 1)
    with pytest.raises(LoweringError, match="reads 128 lines") as error:
        lower_func(large.func)
    assert "annotate a loop inside it" in str(error.value)


def packed_product(rows: int, columns: int, depth: int, panel: int) -> PrimFunc:
    """C += A · W, W in panels of 32 columns and groups of `panel` of them. All tiles of 4 rows share a group."""
    func = WorkloadSpec.parse(f"matmul:{rows},{columns},{depth}").prim_func().with_attr("layout_free_buffers", [1])
    sch = Schedule(func, seed=0)
    block = sch.get_block("T_matmul")
    i, j, k = sch.get_loops(block)
    groups, panels, vectors, lane = sch.split(j, [None, panel, 2, 16])
    outer, row = sch.split(i, [None, 4])
    sch.reorder(groups, outer, panels, k, row, vectors, lane)
    sch.parallel(groups)
    sch.unroll(row)
    return in_panels(sch, k, vectors, lane)


def in_panels(sch: Schedule, k: LoopRV, vectors: LoopRV, lane: LoopRV, distance: str = "group") -> PrimFunc:
    """The product after B was packed into panels of 32 columns ahead of it; steps of `k` ask for the next group."""
    block = sch.get_block("T_matmul")
    sch.unroll(vectors)
    sch.vectorize(lane)
    packed = sch.cache_read(block, sch.read_index(block, "B"), "global")
    sch.annotate(packed, "meta_schedule.layout_rewrite_preproc", True)
    sch.transform_layout(packed, ("write", 0), "lambda i, j: (j // 32, i, j % 32)")
    sch.annotate(k, "software_prefetch", distance)
    two = split_layout_rewrite(sch.func)
    assert two is not None
    return two[1]


def test_steps_of_a_group_share_what_they_ask_for_of_the_next():
    found = re.findall(r"T\.prefetch\((.*), 0, 2, 1\)", lower_func(packed_product(64, 256, 96, 2)).script())
    # a group is of 2 · 32 · 96 elements and is read in 16 · 2 · 96 steps: 2 elements a step
    assert len(found) == 1
    assert found[0].endswith("_1[(j_0 + 1) * 6144 + ((i_0 * 2 + j_1) * 96 + k) * 2]")


@pytest.mark.parametrize("seed", range(6))
def test_groups_that_are_asked_for_change_no_result(seed):
    """Also of sizes that divide by nothing, where loops over panels have no constant extent."""
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(x) for x in rng.integers((5, 40, 33), (40, 300, 120)))
    func = packed_product(rows, columns, depth, int(rng.integers(1, 4)))
    check_product(func, rng, rows, columns, depth)


def check_product(func: PrimFunc, rng: np.random.Generator, rows: int, columns: int, depth: int) -> None:
    assert "T.prefetch" in lower_func(func).script()
    a, b = (rng.standard_normal(size).astype("float32") for size in ((rows, depth), (depth, columns)))
    wide = np.zeros((depth, -(-columns // 32) * 32), "float32")
    wide[:, :columns] = b
    panels = np.ascontiguousarray(wide.reshape(depth, -1, 32).transpose(1, 0, 2))
    result = array(np.zeros((rows, columns), "float32"))
    load_artifact(compile_artifact(func, Target("llvm")))["default_function"](array(a), array(panels), result)
    np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-4, atol=1e-4)


def rows_apart(rows: int, columns: int, depth: int) -> PrimFunc:
    """C += A · W, W in panels of 32 columns. Threads go through panels, and through the rows that share one."""
    func = WorkloadSpec.parse(f"matmul:{rows},{columns},{depth}").prim_func().with_attr("layout_free_buffers", [1])
    sch = Schedule(func, seed=0)
    block = sch.get_block("T_matmul")
    i, j, k = sch.get_loops(block)
    groups, vectors, lane = sch.split(j, [None, 2, 16])
    sch.reorder(groups, i, k, vectors, lane)
    sch.parallel(sch.fuse(groups, i))
    return in_panels(sch, k, vectors, lane)


def test_iterations_that_share_a_group_ask_for_the_next_one_together():
    found = re.findall(r"T\.prefetch\((.*), 0, 2, 1\)", lower_func(rows_apart(4, 256, 96)).script())
    # a group is of 32 · 96 elements and is read in 4 iterations of 96 steps: 8 elements a step
    assert len(found) == 1
    assert found[0].endswith("_1[(j_0_i_fused + 4) // 4 * 3072 + (j_0_i_fused % 4 * 96 + k) * 8]")


def test_many_iterations_that_share_a_group_ask_for_none():
    assert "T.prefetch" not in lower_func(rows_apart(64, 256, 96)).script()


def panels_in_turn(rows: int, columns: int, depth: int) -> PrimFunc:
    """C += A · W, W in panels of 32 columns, each for all tiles of 4 rows. Threads share the panels of 64 columns."""
    func = WorkloadSpec.parse(f"matmul:{rows},{columns},{depth}").prim_func().with_attr("layout_free_buffers", [1])
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops(sch.get_block("T_matmul"))
    groups, panels, vectors, lane = sch.split(j, [None, 2, 2, 16])
    outer, row = sch.split(i, [None, 4])
    sch.reorder(groups, panels, outer, k, row, vectors, lane)
    sch.parallel(groups)
    sch.unroll(row)
    return in_panels(sch, k, vectors, lane, "panel")


def test_steps_of_a_panel_share_what_they_ask_for_of_the_next():
    """The next of the loop around, in which threads have no part: its last iteration asks for the next thread's."""
    found = re.findall(r"T\.prefetch\((.*), 0, 2, 1\)", lower_func(panels_in_turn(64, 256, 96)).script())
    # a panel is of 32 · 96 elements and is read in 16 · 96 steps: 2 elements a step
    assert len(found) == 1
    assert found[0].endswith("_1[j_0 * 6144 + (j_1 + 1) * 3072 + (i_0 * 96 + k) * 2]")


def test_a_loop_in_which_nothing_moves_asks_for_no_panel():
    assert "T.prefetch" not in lower_func(panels_in_turn(64, 32, 96)).script()


@pytest.mark.parametrize("seed", range(4))
def test_panels_that_are_asked_for_change_no_result(seed):
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(x) for x in rng.integers((9, 65, 33), (40, 300, 120)))
    check_product(panels_in_turn(rows, columns, depth), rng, rows, columns, depth)


def test_few_steps_ask_for_no_group():
    """A group that one tile of rows reads is read from memory all the time."""
    assert "T.prefetch" not in lower_func(packed_product(4, 256, 96, 1)).script()


def copied_panels(rows: int, columns: int, depth: int) -> PrimFunc:
    """C += A · B, where each task copies its 32 columns of B, which lie together, before it uses them."""
    func = WorkloadSpec.parse(f"dense:{rows},{columns},{depth}").prim_func()
    sch = Schedule(func, seed=0)
    block = sch.get_block("T_dense")
    panel = sch.cache_read(block, sch.read_index(block, "weight"), "global")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(j, [None, 32])
    sch.reorder(outer, i, k, inner)
    sch.compute_at(panel, outer)
    sch.parallel(outer)
    sch.annotate(k, "software_prefetch", "task")
    return sch.func


def test_a_task_asks_for_what_the_next_one_copies():
    found = re.findall(r"T\.prefetch\((.*), 0, 2, 1\)", lower_func(copied_panels(4, 128, 96)).script())
    assert len(found) == 1  # 32 · 96 elements in 4 · 96 steps: 8 elements a step; A is the same for all
    assert found[0] == "weight_1[(j_0 + 1) * 3072 + (i * 96 + k) * 8]"


@pytest.mark.parametrize("seed", range(6))
def test_tasks_that_are_asked_for_change_no_result(seed):
    rng = np.random.default_rng(seed)
    rows, columns, depth = (int(x) for x in rng.integers((1, 40, 3), (40, 300, 120)))
    func = copied_panels(rows, columns, depth)
    a, b = (rng.standard_normal(size).astype("float32") for size in ((rows, depth), (columns, depth)))
    result = array(np.zeros((rows, columns), "float32"))
    load_artifact(compile_artifact(func, Target("llvm")))["default_function"](array(a), array(b), result)
    np.testing.assert_allclose(result.numpy(), a @ b.T, rtol=1e-4, atol=1e-4)


def test_on_gpus_it_says_nothing():
    sch = Schedule(product(), seed=0)
    i, j, k = sch.get_loops(sch.get_block("T_matmul"))
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")
    sch.annotate(k, "software_prefetch", 1)
    assert fetched(sch.func) == []
