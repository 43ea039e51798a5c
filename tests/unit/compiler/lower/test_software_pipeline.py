"""Loops whose statements work on different iterations at a time: the same results, on CPUs and by threads of GPUs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from compiler.driver import tir_passes
from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func, stages
from compiler.errors import LoweringError
from compiler.interp import threads as interp_threads
from compiler.interp.interpreter import run
from compiler.interp.thread_memory import RaceError
from compiler.ir.module import IRModule
from compiler.lower.gpu.inject_barriers import inject_barriers
from compiler.lower.loops.pipeline_versions import versions
from compiler.schedule.core.schedule import Schedule
from compiler.script.entry import from_source
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w
from tests.kit.gpu.checks import assemble

STAGE, ORDER, ASYNC = (f"software_pipeline_{what}" for what in ("stage", "order", "async_stages"))


def pipelined(func: PrimFunc) -> str:
    """The text right after the pass, less indented and without its head."""
    made = next(made for step, made in stages(func) if step.title == "InjectSoftwarePipeline")
    lines = made.script().splitlines()
    return "\n".join(line[4:] for line in lines if not line.lstrip().startswith(("T.func_attr", "def", "@")))


def rows(stage: list[int], order: list[int], n: int = 10) -> Schedule:
    """B, C and D of a row at a time."""
    s = Schedule(w.chain(n, 3))
    i, _ = s.get_loops("D")
    s.compute_at("C", i)
    s.compute_at("B", i)
    s.annotate(i, STAGE, stage)
    s.annotate(i, ORDER, order)
    return s


def test_the_text() -> None:
    assert pipelined(rows([0, 1, 1], [0, 1, 2]).func).splitlines() == [
        'B = T.allocate([2, 1, 3], "float32", "global")',
        'B_1 = T.Buffer((2, 1, 3), "float32", data=B)',
        'C = T.allocate([1, 3], "float32", "global")',
        'C_1 = T.Buffer((1, 3), "float32", data=C)',
        "for ax1 in range(3):",
        "    B_1[0, 0, ax1] = A[0, ax1] * 2.0",
        "for i in range(9):",
        "    for ax1_1 in range(3):",
        "        B_1[(i + 1) % 2, 0, ax1_1] = A[i + 1, ax1_1] * 2.0",
        "    for ax1_2 in range(3):",
        "        C_1[0, ax1_2] = B_1[i % 2, 0, ax1_2] + 1.0",
        "    for j in range(3):",
        "        D[i, j] = C_1[0, j] * C_1[0, j]",
        "for ax1_3 in range(3):",
        "    C_1[0, ax1_3] = B_1[1, 0, ax1_3] + 1.0",
        "for j_1 in range(3):",
        "    D[9, j_1] = C_1[0, j_1] * C_1[0, j_1]",
    ]


def test_every_order_of_three_statements_is_right_or_refused() -> None:
    taken = 0
    x = np.random.default_rng(0).random((5, 3), dtype=np.float32)
    wanted = ((x * 2) + 1) ** 2
    for stage in [*itertools.product((0, 2), repeat=3), (0, 1, 2)]:
        for order in itertools.permutations(range(3)):
            s = rows(list(stage), list(order), 5)
            places = list(zip(stage, order))
            if places != sorted(places):
                with pytest.raises(LoweringError, match=r"needs .* from another before it, and would come first"):
                    lower_func(s.func)
                continue
            out = np.full((5, 3), np.nan, np.float32)
            run(lower_func(s.func), x, out)
            np.testing.assert_allclose(out, wanted, rtol=1e-6, err_msg=f"{stage} {order}")
            taken += 1
    assert taken == 14
    w.check_everywhere(rows([0, 1, 2], [2, 1, 0]), w.chain(10, 3))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_loops_shorter_than_the_pipeline(n: int) -> None:
    w.check_everywhere(rows([0, 1, 3], [0, 1, 2], n), w.chain(n, 3))


def test_a_loop_of_unknown_extent() -> None:
    size = te.var("n")
    a = te.placeholder((size, 5), name="A")
    b = te.compute((size, 5), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((size, 5), lambda i, j: b[i, j] * 2.0, name="C")
    s = Schedule(create_prim_func([a, c]))
    i, _ = s.get_loops("C")
    s.compute_at("B", i)
    s.annotate(i, STAGE, [0, 2])
    s.annotate(i, ORDER, [0, 1])
    for count in (0, 1, 2, 3, 6):
        x, out = np.random.rand(count, 5).astype("float32"), np.zeros((count, 5), "float32")
        run(lower_func(s.func), x, out)
        np.testing.assert_allclose(out, (x + 1) * 2, rtol=1e-6)


def test_a_reduction_is_one_statement_with_its_init() -> None:
    s = Schedule(w.row_scale())
    i = s.get_loops("D")[0]
    s.compute_at("S", i)
    s.annotate(i, STAGE, [0, 1])
    s.annotate(i, ORDER, [0, 1])
    assert "S = T.allocate([2, 1]" in pipelined(s.func)
    w.check_everywhere(s, w.row_scale())


def product(copies: str = "local", m: int = 13, n: int = 11, k: int = 10) -> Schedule:
    s = Schedule(w.matmul(m, n, k))
    i, j, r = s.get_loops("C")
    (r0, r1), (i0, i1) = s.split(r, [None, 4]), s.split(i, [None, 4])
    s.reorder(i0, r0, i1, j, r1)
    for index in (0, 1):
        s.compute_at(s.cache_read("C", index, copies), r0)
    s.annotate(r0, STAGE, [0, 0, 1])
    s.annotate(r0, ORDER, [0, 1, 2])
    return s


def test_copies_of_tiles_with_tails_vectors_and_rows_set_apart() -> None:
    s = product()
    s.storage_align("B_local", 0, 0, 8, 1)
    for copy in ("A_local", "B_local"):
        s.vectorize(s.get_loops(copy)[-1])
    s.parallel(s.get_loops("C")[0])
    assert "strides=(68, 17, 1)" in pipelined(s.func)
    w.check_everywhere(s, w.matmul())


def test_a_pipeline_within_one() -> None:
    s = product()
    i0 = s.get_loops("C")[0]
    s.annotate(i0, STAGE, [0])
    s.annotate(i0, ORDER, [0])
    w.check_everywhere(s, w.matmul())


def test_versions() -> None:
    assert versions([(0, 0, True), (0, 1, False)]) == 1
    assert versions([(0, 0, True), (1, 1, False)]) == 2
    assert versions([(0, 1, True), (1, 0, False)]) == 1  # read before the next is written
    assert versions([(0, 0, True), (2, 1, False)]) == 3
    assert versions([(0, 0, False), (3, 1, False)]) == 1


_SHARED_BETWEEN = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in T.serial(8, annotations={{"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}}):
        B[{written}] = A[i] * 2.0
        C[i] = B[{read}] + 1.0
"""


def between(written: str, read: str) -> PrimFunc:
    func = from_source(_SHARED_BETWEEN.format(written=written, read=read))
    assert isinstance(func, PrimFunc)
    return func


def test_memory_that_outlives_an_iteration() -> None:
    """It may be used in several stages where iterations use different elements."""
    x, b, c = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    made = tir_passes.InjectSoftwarePipeline()(IRModule.from_expr(between("i", "i")))["main"]
    assert "software_pipeline" not in made.script()
    run(lower_func(made), x, b, c)
    np.testing.assert_array_equal(c, 2 * x + 1)
    for written, read in (("0", "0"), ("i", "i // 2"), ("i // 2", "i // 2")):
        with pytest.raises(LoweringError, match="B is used in stages 0 and 1, and is one for all iterations"):
            tir_passes.InjectSoftwarePipeline()(IRModule.from_expr(between(written, read)))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({STAGE: [0, 1]}, r"software_pipeline_stage has 2 numbers and software_pipeline_order 3"),
        ({ORDER: [0, 0, 1]}, r"software_pipeline_order is \[0, 0, 1\]"),
        ({ORDER: None}, "it has no software_pipeline_order"),
        ({STAGE: [0, 0, 99]}, r"software_pipeline_stage is \[0, 0, 99\]"),
        ({STAGE: "all"}, "software_pipeline_stage is 'all'"),
    ],
)
def test_annotations_that_say_nothing_sound(changes: dict[str, object], says: str) -> None:
    s = rows([0, 0, 1], [0, 1, 2])
    loop = s.get_loops("D")[0]
    for key, value in changes.items():
        s.unannotate(loop, key)
        if value is not None:
            s.annotate(loop, key, value)
    with pytest.raises(LoweringError, match=f"loop 'i' cannot be a software pipeline: {says}"):
        lower_func(s.func)


def test_a_parallel_loop_is_refused() -> None:
    s = rows([0, 0, 1], [0, 1, 2])
    s.parallel(s.get_loops("D")[0])
    with pytest.raises(LoweringError, match="it is parallel"):
        lower_func(s.func)


# ------------------------------------------------------------------------------------------------ threads


def tiled(stage: list[int], order: list[int], asynchronous: list[int], k: int = 32, vector: int = 4) -> Schedule:
    """A product by blocks of 4 x 4 threads, whose inputs are copied to shared memory 8 elements of k at a time."""
    s = Schedule(w.matmul(8, 16, k))
    out = s.cache_write("C", 0, "local")
    i, j, r = s.get_loops("C")
    (i0, it, i2), (j0, jt, j2), (r0, r1) = s.split(i, [None, 4, 2]), s.split(j, [None, 4, 2]), s.split(r, [None, 8])
    s.reorder(i0, j0, it, jt, r0, r1, i2, j2)
    for loop, axis in ((i0, "blockIdx.y"), (j0, "blockIdx.x"), (it, "threadIdx.y"), (jt, "threadIdx.x")):
        s.bind(loop, axis)
    s.reverse_compute_at(out, jt)
    for index in (0, 1):
        copy = s.cache_read("C", index, "shared")
        s.compute_at(copy, r0)
        turn, ty, tx, lanes = s.split(s.fuse(*s.get_loops(copy)[-2:]), [None, 4, 4, vector])
        s.bind(ty, "threadIdx.y")
        s.bind(tx, "threadIdx.x")
        s.vectorize(lanes)
        s.unroll(turn)
    s.annotate(r0, STAGE, stage)
    s.annotate(r0, ORDER, order)
    s.annotate(r0, ASYNC, asynchronous)
    return s


@pytest.mark.parametrize(
    ("stage", "order", "asynchronous", "in_flight"),
    [
        ([0, 0, 1], [0, 1, 2], [0], 1),
        ([0, 0, 2], [0, 1, 2], [0], 2),
        ([0, 0, 2], [1, 2, 0], [0], 1),
        ([0, 1, 3], [0, 1, 2], [0, 1], 4),
        ([0, 0, 1], [0, 1, 2], [], None),
    ],
)
def test_threads_copy_ahead(stage: list[int], order: list[int], asynchronous: list[int], in_flight: int | None) -> None:
    """No thread reads what has not arrived, or overwrites what another still reads; ptxas takes the kernel."""
    for k in (8, 32):
        s = tiled(stage, order, asynchronous, k)
        lowered = inject_barriers(lower_func(s.func, 128))
        x, y = np.random.rand(8, k).astype("float32"), np.random.rand(k, 16).astype("float32")
        out = np.zeros((8, 16), "float32")
        interp_threads.run(lowered, x, y, out)
        np.testing.assert_allclose(out, x @ y, rtol=1e-4)
    text = lowered.script()
    assert (f"T.ptx_wait_group({in_flight})" in text) == (in_flight is not None)
    assert ("ptx_cp_async" in text) == bool(asynchronous)
    assert "async_scope" not in text
    ptx = compile_artifact(s.func, "cuda -arch=sm_80", name="product").blobs["ptx"]
    assemble(ptx, "sm_80")
    assert (b"cp.async.cg.shared.global" in ptx) == bool(asynchronous)


def test_copies_that_are_not_waited_for_or_not_long_enough() -> None:
    """The tests of threads rest on this."""
    text = inject_barriers(lower_func(tiled([0, 0, 1], [0, 1, 2], [0]).func, 128)).script()
    x, y, out = np.ones((8, 32), "float32"), np.ones((32, 16), "float32"), np.zeros((8, 16), "float32")

    def run_with(instead: str) -> None:
        func = from_source(text.replace("T.ptx_wait_group(1)", instead))
        assert isinstance(func, PrimFunc)
        interp_threads.run(func, x, y, out)

    run_with("0")
    assert np.isnan(out).all()
    with pytest.raises(RaceError, match="A_shared"):
        run_with("T.ptx_wait_group(2)")


_OVERWRITTEN = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((8,), scope="shared")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        S[tx] = A[tx]
        T.evaluate(T.tvm_storage_sync("shared"))
        C[tx] = S[7 - tx]
        T.evaluate(T.ptx_cp_async("float32", S.data, tx, A.data, tx, 4))
        T.evaluate(T.ptx_commit_group())
        T.evaluate(T.tvm_storage_sync("shared"))
        T.evaluate(T.ptx_wait_group(0))
        C[tx] = C[tx] + S[tx]
"""


def test_a_copy_overwrites_from_where_it_begins() -> None:
    func = from_source(_OVERWRITTEN)
    assert isinstance(func, PrimFunc)
    lowered = lower_func(func)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    with pytest.raises(RaceError, match=r"race on S\[.\]: thread . writes it and thread . reads it"):
        interp_threads.run(lowered, x, out)
    interp_threads.run(inject_barriers(lowered), x, out)
    np.testing.assert_array_equal(out, x[::-1] + x)


def test_copies_of_four_bytes_and_what_is_no_copy() -> None:
    narrow = tiled([0, 0, 1], [0, 1, 2], [0], vector=1)
    assert ".ca.shared.global" in compile_artifact(narrow.func, "cuda -arch=sm_80").blobs["ptx"].decode()
    func = from_source(_SCALED)
    assert isinstance(func, PrimFunc)
    lowered = inject_barriers(lower_func(func))
    assert "ptx_cp_async" not in lowered.script()  # scaled on the way
    x, out = np.random.rand(64).astype("float32"), np.zeros(64, "float32")
    interp_threads.run(lowered, x, out)
    np.testing.assert_allclose(out, (2 * x).reshape(8, 8)[:, ::-1].ravel(), rtol=1e-6)


def test_padding_is_copied_as_zeros() -> None:
    for vector, kind in ((1, b".ca."), (4, b".cg.")):
        func = from_source(_PADDED.format(last=8 * vector - 1, vector=vector))
        assert isinstance(func, PrimFunc)
        lowered = inject_barriers(lower_func(func, 128))
        assert "ptx_cp_async" in lowered.script()
        x, out = np.random.rand(48 * vector).astype("float32"), np.zeros(64 * vector, "float32")
        interp_threads.run(lowered, x, out)
        wanted = np.concatenate([x, np.zeros(16 * vector, "float32")]).reshape(8, -1)[:, ::-1]
        np.testing.assert_array_equal(out, wanted.ravel())
        ptx = compile_artifact(func, "cuda -arch=sm_80").blobs["ptx"]
        assert b"cp.async" + kind in ptx
        assemble(ptx, "sm_80")


_PADDED = """
@T.prim_func
def main(A: T.Buffer((48 * {vector},), "float32"), C: T.Buffer((64 * {vector},), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for i in T.serial(8, annotations={{
            "software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1], "software_pipeline_async_stages": [0]
        }}):
            with T.block("tile"):
                S = T.alloc_buffer((8 * {vector},), scope="shared")
                for v in T.vectorized({vector}):
                    S[tx * {vector} + v] = T.if_then_else(
                        i * 8 + tx < 48, A[(i * 8 + tx) * {vector} + v], T.float32(0)
                    )
                for v in range({vector}):
                    C[(i * 8 + tx) * {vector} + v] = S[{last} - tx * {vector} - v]
"""

_SCALED = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for i in T.serial(8, annotations={
            "software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1], "software_pipeline_async_stages": [0]
        }):
            with T.block("tile"):
                S = T.alloc_buffer((8,), scope="shared")
                S[tx] = A[i * 8 + tx] * 2.0
                C[i * 8 + tx] = S[7 - tx]
"""


def test_on_cpus_copies_are_plain() -> None:
    s = product("local")
    s.annotate(s.get_loops("C")[1], ASYNC, [0])
    assert "ptx" not in lower_func(s.func).script()
    w.check_everywhere(s, w.matmul())
