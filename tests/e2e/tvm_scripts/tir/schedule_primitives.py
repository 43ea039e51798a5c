"""One primitive after the other on small functions, each checked by running what it made."""

import numpy as np
import tvm
import tvm.testing
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def elementwise(A: T.Buffer((16, 32), "float32"), D: T.Buffer((16, 32), "float32")):
    B = T.alloc_buffer((16, 32))
    C = T.alloc_buffer((16, 32))
    for i, j in T.grid(16, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid(16, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + 1.0
    for i, j in T.grid(16, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] * 3.0


a = np.arange(512, dtype="float32").reshape(16, 32)


def check(name, change):
    sch = tir.Schedule(elementwise)
    change(sch)
    f = tvm.build(sch.mod, target="llvm")
    d = tvm.nd.empty((16, 32))
    f(tvm.nd.array(a), d)
    tvm.testing.assert_allclose(d.numpy(), (a * 2 + 1) * 3)
    blocks = []
    tvm.tir.stmt_functor.post_order_visit(
        sch.mod["main"].body, lambda n: blocks.append(n.name_hint) if isinstance(n, tir.Block) else None
    )
    print(name, sorted(blocks))


def inline(sch):
    sch.compute_inline(sch.get_block("B"))
    sch.reverse_compute_inline(sch.get_block("D"))


def compute_at(sch):
    d = sch.get_block("D")
    i, j = sch.get_loops(d)
    sch.compute_at(sch.get_block("C"), i, preserve_unit_loops=True)
    sch.compute_at("B", i)


def reverse_compute_at(sch):
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.reverse_compute_at(sch.get_block("C"), i)
    sch.reverse_compute_at(sch.get_block("D"), i)


def caches(sch):
    b = sch.get_block("B")
    cached = sch.cache_read(b, 0, "global")
    out = sch.cache_write(sch.get_block("D"), 0, "global")
    print(sch.get(cached).name_hint, sch.get(out).name_hint)


def fuse_split(sch):
    fused = sch.fuse(*sch.get_loops("C"))
    a, b, c = sch.split(fused, factors=[4, None, 8])
    sch.reorder(b, a)
    sch.bind if False else sch.annotate(a, "note", 3)
    sch.unannotate(a, "note")


def layout(sch):
    sch.transform_layout("C", ("write", 0), lambda i, j: (j // 8, i, j % 8))


def storage(sch):
    sch.storage_align("B", 0, axis=0, factor=32, offset=8)
    sch.set_scope("C", 0, "global")


def unit_loops(sch):
    loop = sch.add_unit_loop(sch.get_block("D"))
    sch.blockize(sch.get_loops("C")[1])
    print(sch.get(loop).extent)


def partitioned(sch):
    i, j = sch.get_loops("B")
    sch.loop_partition(j, [8, None])


for change in (inline, compute_at, reverse_compute_at, caches, fuse_split, layout, storage, unit_loops):
    check(change.__name__, change)

sch = tir.Schedule(elementwise)
print([sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))])
print([sch.get(b).name_hint for b in sch.get_producers("C")], [sch.get(b).name_hint for b in sch.get_consumers("C")])
print([sch.get(b).name_hint for b in sch.get_output_blocks("root")])
for wrong in (
    lambda: sch.get_block("nothing"),
    lambda: sch.compute_inline("D"),
    lambda: sch.reorder(*sch.get_loops("B"), *sch.get_loops("C")),
    lambda: sch.vectorize(sch.get_loops("B")[0]) or sch.vectorize(sch.get_loops("B")[0]),
):
    try:
        wrong()
        print("no error")
    except tir.ScheduleError:
        print("ScheduleError")
