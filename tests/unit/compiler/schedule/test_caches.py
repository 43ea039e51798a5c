"""reindex_cache_read, reindex_cache_write, cache_inplace, cache_index and unsafe_set_dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.arith.index_map import IndexMap
from compiler.driver.pipeline import lower_func
from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from tests.kit.compiler.schedules import workloads as w

# --------------------------------------------------------------------- copies at a place of choice


@pytest.mark.parametrize("shape", [(13, 11, 10), (4, 8, 3), (1, 1, 1)])
@pytest.mark.parametrize(
    "index_map",
    [lambda i, j, k: (j, k), lambda i, j, k: [k // 4, j, k % 4], lambda i, j, k: [j * 12 + k], lambda *v: v],
)
def test_an_operand_through_a_copy(shape: tuple[int, int, int], index_map: Any) -> None:
    func = w.matmul(*shape)
    sch = Schedule(func)
    copy = sch.reindex_cache_read(sch.get_block("C"), 1, "global", index_map)
    assert sch.get(copy).name_hint == "B_global"
    w.check_everywhere(sch, func)


@pytest.mark.parametrize("shape", [(13, 11, 10), (4, 8, 3), (1, 1, 1)])
@pytest.mark.parametrize(
    "index_map",
    [IndexMap.from_func(lambda i, j, k: [j, i]), lambda i, j, k: (j // 4, i, j % 4), "lambda a, b, c: b * 13 + a"],
)
def test_a_result_through_a_copy(shape: tuple[int, int, int], index_map: Any) -> None:
    func = w.matmul_relu(*shape)
    sch = Schedule(func)
    block = sch.get_block("C")
    copy = sch.reindex_cache_write(block, "C", "local", index_map)
    assert sch.get(copy).name_hint == "C_local"
    w.check_everywhere(sch, func)
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    w.check_everywhere(sch, func)


def test_a_window_through_a_copy() -> None:
    func = w.blur()
    sch = Schedule(func)
    sch.reindex_cache_read(sch.get_block("C"), "B", "global", lambda i, r: (r, i))
    w.check_everywhere(sch, func)


def test_iterations_that_make_nothing_copy_nothing() -> None:
    """The copy does not go along the axis of one value, so that its condition does not say where nothing is made."""
    func = w.matmul(1, 4, 3)
    sch = Schedule(func)
    block = sch.get_block("C")
    _, _, inner = sch.split(sch.get_loops("C")[0], [None, 4, 5])
    copy = sch.reindex_cache_write(block, "C", "global", lambda i, j, k: (j, i // 4))
    sch.reverse_compute_at(copy, inner)
    w.check_everywhere(sch, func)
    np.testing.assert_allclose(w.outputs(lower_func(sch.func)), w.outputs(func), rtol=1e-5)


# -------------------------------------------------------------------------------------- in place


def test_a_block_that_updates_a_buffer() -> None:
    func = w.in_place()
    sch = Schedule(func)
    there, back = sch.cache_inplace(sch.get_block("U"), 0, "local")
    assert [sch.get(b).name_hint for b in (there, back)] == ["B_local", "B_local_1"]
    outer, _ = sch.split(sch.get_loops("U")[0], [None, 4])
    sch.parallel(outer)
    w.check_everywhere(sch, func)


def test_an_update_that_was_decomposed() -> None:
    func = w.matmul_relu()
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.decompose_reduction(block, sch.get_loops(block)[0])
    sch.cache_inplace(block, "C", "global")
    w.check_everywhere(sch, func)


def test_a_part_of_a_buffer() -> None:
    """Only elements that were copied there are copied back: those in between keep their values."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((20,)), C: T.Buffer((20,))):
    for i in T.grid(20):
        with T.block("B"):
            vi = T.axis.spatial(20, i)
            C[vi] = A[vi]
    for i in T.grid(5):
        with T.block("U"):
            vi = T.axis.spatial(5, i)
            C[vi * 3 + 2] = C[vi * 3 + 2] * 2.0
""")
    sch = Schedule(func)
    there, _ = sch.cache_inplace(sch.get_block("U"), 0, "global")
    assert int(sch.get(sch.get_loops(there)[0]).extent) == 13
    w.check_everywhere(sch, func)


def test_a_function_that_is_handed_the_address() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((20,)), C: T.Buffer((20,))):
    for i in T.grid(20):
        with T.block("B"):
            vi = T.axis.spatial(20, i)
            C[vi] = A[vi]
    with T.block("U"):
        T.reads(C[0:20])
        T.writes(C[0:20])
        T.evaluate(T.call_extern("handle", "memset", C.data, 0, T.int64(16)))
""")
    sch = Schedule(func)
    sch.cache_inplace(sch.get_block("U"), "C", "global")
    assert '"memset", C_global.data' in sch.func.script()
    w.check_everywhere(sch, func)


# --------------------------------------------------------------------------------------- indices


@pytest.mark.parametrize(("threshold", "count"), [(0, 2), (1, 2), (2, 1)])
def test_indices_are_kept(threshold: int, count: int) -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((7,)), C: T.Buffer((9, 5))):
    for i, j in T.grid(9, 5):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[(vi * 3 + vj) % 7] + A[(vi * 3 + vj) % 7] * A[vi // 2]
""")
    sch = Schedule(func)
    blocks = sch.cache_index(sch.get_block("C"), "global", threshold)
    assert len(blocks) == count
    assert [str(sch.get(b).name_hint) for b in blocks] == ["index_0", "index_1"][:count]
    w.check_everywhere(sch, func)


def test_indices_of_a_convolution() -> None:
    func = w.conv(stride=2)
    sch = Schedule(func)
    blocks = sch.cache_index(sch.get_block("conv2d_nchw"), "global")
    assert len(blocks) == 2
    loops = sch.get_loops("conv2d_nchw")
    sch.split(loops[3], [None, 2])
    w.check_everywhere(sch, func)


# ---------------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_wider_dtype_keeps_the_result(dtype: str) -> None:
    func = w.matmul_relu()
    sch = Schedule(func)
    block = sch.get_block("C")
    sch.unsafe_set_dtype(block, 0, dtype)
    assert sch.get(block).writes[0].buffer.dtype == dtype
    w.check_everywhere(sch, func)


@pytest.mark.parametrize(("dtype", "rounded"), [("float16", "float16"), ("int8", "int8")])
def test_a_narrower_dtype_rounds(dtype: str, rounded: str) -> None:
    sch = Schedule(w.chain(5, 9))
    sch.unsafe_set_dtype(sch.get_block("B"), 0, dtype)
    a = np.random.default_rng(0).standard_normal((5, 9)).astype("float32")
    c = (a * np.float32(2)).astype(rounded).astype("float32") + np.float32(1)
    for found in (w.outputs(sch.func), w.native_outputs(sch.func)):
        np.testing.assert_allclose(found, c * c, rtol=1e-6)


# --------------------------------------------------------------------------------------- refusals


REFUSED = [
    (w.matmul, "reindex_cache_read", (1, "local", lambda i, j, k: (i, k),), "puts what block 'C' has along axis 'v_j'"),
    (w.matmul, "reindex_cache_read", (5, "local", lambda i, j, k: (i, k),), "has no read buffer number 5"),
    (w.matmul, "reindex_cache_read", (1, "disk", lambda i, j, k: (j, k),), "there is no memory 'disk'"),
    (w.matmul, "reindex_cache_read", (1, "local", lambda i, j, k: (j - 1, k),), "the index map goes below 0"),
    (w.matmul, "reindex_cache_read", (1, "local", "lambda i: i",), "takes 1 arguments, 3 are needed"),
    (w.stencils, "reindex_cache_read", (0, "local", lambda i: i,), "block 'C' uses 'B' at 2 different places"),
    (w.matmul, "reindex_cache_write", (0, "local", lambda i, j, k: j,), "puts what block 'C' has along axis 'v_i'"),
    (w.matmul, "reindex_cache_write", (0, "local", lambda i, j, k: (i, j, k),), "mentions the reduction axis 'v_k'"),
    (w.matmul, "reindex_cache_write", (1, "local", lambda i, j, k: j,), "has no write buffer number 1"),
    (w.chain, "cache_inplace", (0, "local",), "block 'C' does not write 'B', which it reads"),
    (w.chain, "cache_inplace", (2, "local",), "reads no buffer number 2"),
    (w.chain, "cache_index", ("global",), "block 'C' has no index to keep that occurs 1 times"),
    (w.gathered, "cache_index", ("global", 3,), "block 'C' has no index to keep that occurs 3 times"),
    (w.gathered, "cache_index", ("global", -1,), "cse_thresh is a count, got -1"),
    (w.gathered, "cache_index", ("tape",), "there is no memory 'tape'"),
    (w.matmul, "unsafe_set_dtype", (0, "float16",), "buffer 'C' is an argument of the function"),
    (w.chain, "unsafe_set_dtype", (0, "float13",), "float13"),
    (w.chain, "unsafe_set_dtype", (0, "float32x4",), "elements of a buffer are numbers, one each"),
    (w.chain, "unsafe_set_dtype", (1, "float16",), "writes 1 buffers, it has no number 1"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused(number: int) -> None:
    make, primitive, arguments, rule = REFUSED[number]
    w.check_refused(make(), lambda s: getattr(s, primitive)(s.get_block("C"), *arguments), primitive, rule)


def test_an_update_in_the_loops_of_another_block() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    for i in T.grid(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
        with T.block("U"):
            vi = T.axis.spatial(8, i)
            C[vi] = C[vi] * 2.0
""")
    w.check_refused(
        func, lambda s: s.cache_inplace(s.get_block("U"), 0, "local"), "cache_inplace", "block 'B' in the same loops"
    )
