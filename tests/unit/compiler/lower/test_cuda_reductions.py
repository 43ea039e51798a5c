"""Reductions along threads where sizes do not fit, warps are not whole, or combinations are no plain sums."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.build import compile_artifact, lower
from compiler.errors import LoweringError
from compiler.lower.gpu.inject_barriers import inject_barriers
from compiler.script.entry import from_source
from tests.kit.gpu.checks import assemble, run_threads
from tunefarm.script import tir as T


def run(func, *arrays: np.ndarray) -> str:
    """Run it in threads, assemble its PTX; the text with barriers."""
    module = lower(func, name="kernel")
    run_threads(module, *arrays)
    assemble(compile_artifact(module, "cuda -arch=sm_80").blobs["ptx"], "sm_80")
    return inject_barriers(module["kernel"]).script()


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 8, shape).astype(np.float32)


def test_threads_over_rows_inside_a_reduction_store_no_row_too_many() -> None:
    @T.prim_func
    def rows(A: T.Buffer((10, 64)), B: T.Buffer((10,))):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for ko in range(2):
                for ty in T.thread_binding(4, thread="threadIdx.y"):
                    for tx in T.thread_binding(32, thread="threadIdx.x"):
                        with T.block("B"):
                            i = T.axis.spatial(10, bx * 4 + ty)
                            k = T.axis.reduce(64, ko * 32 + tx)
                            T.where(bx * 4 + ty < 10)
                            with T.init():
                                B[i] = T.float32(0)
                            B[i] = B[i] + A[i, k]

    a, b = numbers(10, 64), np.zeros(10, np.float32)
    run(rows, a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_rows_that_a_size_of_the_call_leaves_out_are_not_stored() -> None:
    @T.prim_func
    def rows(a: T.handle, b: T.handle):
        m = T.int32()
        A, B = T.match_buffer(a, (m, 40)), T.match_buffer(b, (m,))
        for bx in T.thread_binding((m + 3) // 4, thread="blockIdx.x"):
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for ko in range(2):
                    for tx in T.thread_binding(32, thread="threadIdx.x"):
                        with T.block("B"):
                            i = T.axis.spatial(m, bx * 4 + ty)
                            k = T.axis.reduce(40, ko * 32 + tx)
                            T.where(bx * 4 + ty < m and ko * 32 + tx < 40)
                            with T.init():
                                B[i] = T.float32(0)
                            B[i] = B[i] + A[i, k]

    a, b = numbers(10, 40), np.zeros(10, np.float32)
    run(rows, a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_what_is_left_out_of_a_sum_is_no_condition_of_its_result() -> None:
    @T.prim_func
    def rows(A: T.Buffer((4, 10, 32)), B: T.Buffer((4,))):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for lo, li in T.grid(3, 4):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    with T.block("B"):
                        i, k = T.axis.remap("SR", [bx, tx])
                        m = T.axis.reduce(10, lo * 4 + li)
                        T.where(lo * 4 + li < 10)
                        with T.init():
                            B[i] = T.float32(0)
                        B[i] = B[i] + A[i, m, k]

    a, b = numbers(4, 10, 32), np.zeros(4, np.float32)
    run(rows, a, b)
    np.testing.assert_array_equal(b, a.sum((1, 2)))


def test_a_kernel_counts_its_own_threads_for_shuffles() -> None:
    """Sixteen threads are no warp, however many those of the next kernel are."""

    @T.prim_func
    def two(A: T.Buffer((3, 16)), B: T.Buffer((3,)), C: T.Buffer((4, 16))):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("B"):
                    i, k = T.axis.remap("SR", [bx, tx])
                    with T.init():
                        B[i] = T.float32(0)
                    B[i] = B[i] + A[i, k]
        for ty in T.thread_binding(4, thread="threadIdx.y"):
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("C"):
                    i, j = T.axis.remap("SS", [ty, tx])
                    C[i, j] = T.float32(1)

    a, b = numbers(3, 16), np.zeros(3, np.float32)
    assert "shuffle" not in run(two, a, b, np.zeros((4, 16), np.float32))
    np.testing.assert_array_equal(b, a.sum(1))


def test_threads_that_do_not_come_along_end_no_warp_in_a_shuffle() -> None:
    @T.prim_func
    def part(A: T.Buffer((3, 16)), B: T.Buffer((3,)), C: T.Buffer((4, 16))):
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for ty in T.thread_binding(3, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("B"):
                        i, k = T.axis.remap("SR", [ty, tx])
                        with T.init():
                            B[i] = T.float32(0)
                        B[i] = B[i] + A[i, k]
            for ty in T.thread_binding(4, thread="threadIdx.y"):
                for tx in T.thread_binding(16, thread="threadIdx.x"):
                    with T.block("C"):
                        i, j = T.axis.remap("SS", [ty, tx])
                        C[i, j] = T.float32(1)

    with pytest.raises(LoweringError, match=r"threads must wait for each other to use .*B_shared"):
        compile_artifact(lower(part, name="kernel"), "cuda -arch=sm_80")


def combined(dtype: str, start: str, combination: str):
    """Two rows of 64 elements, each combined along the threads of a block."""
    return from_source(f"""
@T.prim_func
def rows(A: T.Buffer((2, 64), "{dtype}"), B: T.Buffer((2,), "{dtype}")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("B"):
                i, k = T.axis.remap("SR", [bx, tx])
                with T.init():
                    B[i] = {start}
                B[i] = {combination}
""")


def test_an_extreme_of_nothing_but_infinities_is_infinite() -> None:
    a, b = np.full((2, 64), -np.inf, np.float32), np.zeros(2, np.float32)
    a[1, 40] = 2
    run(combined("float32", 'T.float32("-inf")', "T.max(B[i], A[i, k])"), a, b)
    np.testing.assert_array_equal(b, [-np.inf, 2])


def test_a_combination_that_need_not_look_at_both_exchanges_all_the_same() -> None:
    a, b = np.zeros((2, 64), bool), np.zeros(2, bool)
    a[1, 40] = True
    assert "shuffle" in run(combined("bool", "T.bool(False)", "B[i] or A[i, k]"), a, b)
    np.testing.assert_array_equal(b, [False, True])
