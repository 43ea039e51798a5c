"""A blockized product: its sref, the steps of its trace, and the trace taken again."""

import tvm
from tvm.script import tir as T


@T.prim_func
def product(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    for i, j, k in T.grid(128, 128, 128):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


sch = tvm.tir.Schedule(product, debug_mask="all", error_render_level="detail")
block = sch.get_block("C")
i, j, k = sch.get_loops(block)
outer, inner = sch.split(i, factors=[None, 16])
sch.reorder(outer, j, k, inner)
tile = sch.blockize(inner)
print(sch.get(tile).name_hint, [str(axis.dom.extent) for axis in sch.get(tile).iter_vars])
print(sch.get_sref(tile).parent is not None, len(sch.get_child_blocks(tile)))
try:
    sch.compute_inline(block)
except tvm.tir.ScheduleError:
    print("ScheduleError")
print([inst.kind.name for inst in sch.trace.insts])
again = tvm.tir.Schedule(product)
sch.trace.apply_to_schedule(again, remove_postproc=False)
tvm.ir.assert_structural_equal(again.mod, sch.mod)
print(sch.trace.simplified(True).insts[-1].kind.name)
