"""Schedules whose steps are taken again from their texts, as tests of schedules do it, and what they make."""

from tvm import tir
from tvm.script import tir as T
from tvm.tir.schedule.testing import assert_structural_equal_ignore_global_symbol, verify_trace_roundtrip


@T.prim_func
def twice(a: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (128, 128))
    C = T.match_buffer(c, (128, 128))
    B = T.alloc_buffer((128, 128))
    for i, j in T.grid(128, 128):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(128, 128):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0


@T.prim_func
def product(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [128, 128])
    B = T.match_buffer(b, [128, 128])
    C = T.match_buffer(c, [128, 128])
    for i, j, k in T.grid(128, 128, 128):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


def check(name, sch, func):
    again = verify_trace_roundtrip(sch=sch, mod=func)
    assert_structural_equal_ignore_global_symbol(again.mod["main"], sch.mod["main"])
    shapes = []
    for block in again.get_child_blocks(again.get_block("root")):
        loops = [int(again.get(loop).extent) for loop in again.get_loops(block)]
        shapes.append((again.get(block).name_hint, loops))
    print(name, shapes)


sch = tir.Schedule(twice, debug_mask="all")
i, j = sch.get_loops(sch.get_block("B"))
sch.split(i, factors=[2, 1, None])
sch.split(j, factors=[None, 4, 8])
check("split", sch, twice)

sch = tir.Schedule(twice, debug_mask="all")
loops = sch.get_loops(sch.get_block("C"))
sch.bind(sch.fuse(*loops), "threadIdx.x")
sch.compute_inline("B")
check("fuse and inline", sch, twice)

sch = tir.Schedule(twice, debug_mask="all")
sch.reverse_compute_inline(sch.get_block("C"))
check("reverse inline", sch, twice)

sch = tir.Schedule(twice, debug_mask="all")
i, j = sch.get_loops(sch.get_block("C"))
i0, i1 = sch.split(i, [None, 16])
j0, j1 = sch.split(j, [None, 16])
sch.reorder(i0, j0, i1, j1)
sch.compute_at(sch.get_block("B"), j0)
check("compute at", sch, twice)

sch = tir.Schedule(twice, debug_mask="all")
sch.set_scope("B", 0, "shared")
sch.storage_align("B", 0, axis=0, factor=128, offset=127)
sch.transform_layout("B", ("write", 0), lambda m, n: [m // 16, n // 16, m % 16, n % 16])
check("storage", sch, twice)

sch = tir.Schedule(product, debug_mask="all")
block = sch.get_block("update")
i, j, k = sch.get_loops(block)
sch.reorder(k, i)
sch.parallel(j)
sch.reorder_block_iter_var(block, [2, 0, 1])
check("reorder", sch, product)

sch = tir.Schedule(product, debug_mask="all")
block = sch.get_block("update")
i, j, k = sch.get_loops(block)
tiles = sch.sample_perfect_tile(k, n=2, max_innermost_factor=16, decision=[16, 8])
ko, ki = sch.split(k, tiles)
sch.annotate(ki, "pragma_note", 3)
init = sch.decompose_reduction(block, ko)
print(sch.get(init).name_hint, [int(sch.get(t)) for t in tiles])
check("reduction", sch, product)

try:
    assert_structural_equal_ignore_global_symbol(twice, product)
except ValueError:
    print("these differ")
