"""Traces written as JSON and carried out on other schedules."""

import json

import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def matmul_add(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (64, 64))
    B = T.match_buffer(b, (64, 64))
    C = T.match_buffer(c, (64, 64))
    D = T.alloc_buffer((64, 64))
    for i, j, k in T.grid(64, 64, 64):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(64, 64):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = D[vi, vj] + T.float32(1)


def plain(found):
    if hasattr(found, "value"):
        return found.value
    if isinstance(found, str):
        return str(found)
    try:
        return [plain(item) for item in found]
    except TypeError:
        return found


def tiled(sch):
    i, j, _ = sch.get_loops(sch.get_block("D"))
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 16, decision=[8, 8]))
    sch.reorder(i0, j0, i1, j1)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(j1)
    sch.unroll(i1)


def cached(sch):
    block = sch.get_block("D")
    sch.reverse_compute_at(sch.get_block("C"), sch.get_loops(block)[0])
    copy = sch.cache_read(block, 0, "local")
    sch.cache_write(block, 0, "local")
    sch.compute_at(copy, sch.get_loops(block)[2])
    sch.annotate(block, "x", 1)
    sch.annotate(sch.get_loops(block)[0], "pragma", "abc")
    sch.unannotate(block, "x")
    sch.storage_align(copy, 0, 0, 8, 4)
    sch.set_scope(copy, 0, "shared")


def drawn(sch):
    block = sch.get_block("D")
    sch.decompose_reduction(block, sch.get_loops(block)[2])
    sch.annotate(block, "unroll", sch.sample_categorical([1, 2, 4], [0.25, 0.25, 0.5], decision=1))
    sch.enter_postproc()


def placed(sch):
    last = sch.get_block("C")
    (first,) = sch.get_producers(last)
    sch.get_consumers(first)
    sch.compute_at(first, sch.sample_compute_location(first, decision=-1))
    sch.bind(sch.get_loops(last)[0], "threadIdx.x")
    sch.add_unit_loop(last)


def factored(sch):
    _, _, k = sch.get_loops(sch.get_block("D"))
    sch.rfactor(sch.split(k, [8, 8])[1], 0)


for steps in (tiled, cached, drawn, placed, factored):
    sch = tir.Schedule(matmul_add, seed=1)
    steps(sch)
    found = plain(sch.trace.as_json())
    print(steps.__name__, json.dumps(found))
    other = tir.Schedule(matmul_add, seed=2)
    tir.schedule.Trace.apply_json_to_schedule(sch.trace.as_json(), other)
    tvm.ir.assert_structural_equal(other.mod["main"], sch.mod["main"])
    print(plain(other.trace.as_json()) == found)
