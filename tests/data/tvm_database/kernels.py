"""Kernels with schedules of many primitives, and a database of their records: `python kernels.py FOLDER` makes one.

It runs on Apache TVM 0.17 (`theirs/` was made so) and here (`ours/`). TVM 0.17 read `ours/`, found each workload, and
each trace made the module that the schedule itself makes there. `python kernels.py --read FOLDER` asks that.
"""

import os
import sys

import tvm
import tvm.tir.tensor_intrin.x86
from tvm import meta_schedule as ms
from tvm import te, tir

TARGET = tvm.target.Target("llvm -num-cores=4 -mcpu=skylake-avx512")


def matmul():
    a, b = te.placeholder((64, 64), name="A"), te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def conv2d():
    x, w = te.placeholder((1, 8, 16, 16), name="X"), te.placeholder((16, 8, 3, 3), name="W")

    def padded(n, c, h, w):
        inside = te.all(h >= 1, h - 1 < 16, w >= 1, w - 1 < 16)
        return te.if_then_else(inside, x[n, c, h - 1, w - 1], 0.0)

    p = te.compute((1, 8, 18, 18), padded, name="P")
    rc, rh, rw = (te.reduce_axis((0, size), name=name) for size, name in ((8, "rc"), (3, "rh"), (3, "rw")))
    y = te.compute(
        (1, 16, 16, 16),
        lambda n, f, i, j: te.sum(p[n, rc, i + rh, j + rw] * w[f, rc, rh, rw], axis=[rc, rh, rw]),
        name="Y",
    )
    z = te.compute((1, 16, 16, 16), lambda n, f, i, j: te.max(y[n, f, i, j], 0.0), name="Z")
    return te.create_prim_func([x, w, z])


def softmax():
    x = te.placeholder((32, 128), name="X")
    k, k2 = te.reduce_axis((0, 128), name="k"), te.reduce_axis((0, 128), name="k2")
    m = te.compute((32,), lambda i: te.max(x[i, k], axis=k), name="most")
    e = te.compute((32, 128), lambda i, j: te.exp(x[i, j] - m[i]), name="exp")
    s = te.compute((32,), lambda i: te.sum(e[i, k2], axis=k2), name="sum")
    y = te.compute((32, 128), lambda i, j: e[i, j] / s[i], name="norm")
    return te.create_prim_func([x, y])


def bytes_product():
    a, b = te.placeholder((32, 64), "uint8", name="A"), te.placeholder((32, 64), "int8", name="B")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute(
        (32, 32), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="C"
    )
    return te.create_prim_func([a, b, c])


def tiled(sch):
    b = sch.get_block("C")
    i, j, k = sch.get_loops(b)
    i0, i1, i2 = sch.split(i, sch.sample_perfect_tile(i, 3, 16, decision=[4, 2, 8]))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 16, decision=[4, 16]))
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, i1, k1, i2, j1)
    sch.reverse_compute_at(sch.cache_write(b, 0, "global"), j0)
    sch.compute_at(sch.cache_read(b, 1, "global"), j0)
    sch.parallel(i0)
    sch.vectorize(j1)
    steps = sch.sample_categorical([0, 16, 64], [0.25, 0.5, 0.25], decision=1)
    sch.annotate(i0, "pragma_auto_unroll_max_step", steps)
    sch.annotate(b, "meta_schedule.tiling_structure", "SSRSRS")
    sch.unroll(k1)
    sch.decompose_reduction(b, k0)


def packed(sch):
    b = sch.get_block("C")
    i, j, _ = sch.get_loops(b)
    outer, inner = sch.split(sch.fuse(i, j), [None, 32], preserve_unit_iters=True)
    panels = sch.cache_read(b, 1, "global")
    sch.transform_layout(panels, ("write", 0), lambda i, j: (j // 16, i, j % 16))
    sch.storage_align(panels, 0, axis=0, factor=32, offset=8)
    sch.set_scope(panels, 0, "global")
    sch.parallel(outer)
    sch.unroll(inner)


def padded_inline(sch):
    sch.compute_inline(sch.get_block("P"))
    b = sch.get_block("Y")
    n, f, h, w, rc, rh, rw = sch.get_loops(b)
    f0, f1 = sch.split(f, sch.sample_perfect_tile(f, 2, 8, decision=[4, 4]))
    h0, h1 = sch.split(h, factors=[None, 4])
    sch.reorder(n, f0, h0, rc, rh, rw, f1, h1, w)
    sch.vectorize(w)
    sch.reverse_compute_at(sch.get_block("Z"), h0)
    fused = sch.fuse(n, f0)
    sch.parallel(fused)
    sch.annotate(fused, "pragma_unroll_explicit", 1)
    sch.decompose_reduction(b, rc)
    sch.unannotate(fused, "pragma_unroll_explicit")


def padded_apart(sch):
    p, y = sch.get_block("P"), sch.get_block("Y")
    loops = sch.get_loops(y)
    sch.compute_at(p, sch.sample_compute_location(p, decision=2), preserve_unit_loops=True)
    sch.get_consumers(p)
    sch.get_producers(y)
    sch.get_child_blocks(sch.get_block("root"))
    sch.parallel(loops[1])
    sch.add_unit_loop(p)


def in_parts(sch):
    _, k = sch.get_loops(sch.get_block("most"))
    _, lanes = sch.split(k, [8, 16])
    sch.rfactor(lanes, 1)
    i, j = sch.get_loops(sch.get_block("norm"))
    sch.parallel(i)
    sch.vectorize(sch.split(j, [None, 16])[1])
    sch.enter_postproc()
    sch.unroll(sch.get_loops(sch.get_block("sum"))[0])


def row_by_row(sch):
    i, _ = sch.get_loops(sch.get_block("norm"))
    for name in ("sum", "exp", "most"):
        sch.compute_at(sch.get_block(name), i)
    sch.parallel(i)


def tensorized(sch):
    b = sch.get_block("C")
    i, j, k = sch.get_loops(b)
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    panels = sch.cache_read(b, 1, "global")
    sch.reorder(i, j0, k0, j1, k1)
    sch.transform_layout(panels, ("write", 0), lambda j, k: (j // 16, k // 4, j % 16, k % 4))
    sch.decompose_reduction(b, k0)
    sch.tensorize(j1, "dot_16x4_vnni")


CASES = [
    (matmul, tiled, 0.5), (matmul, packed, 1.5), (conv2d, padded_inline, 0.25), (conv2d, padded_apart, 0.75),
    (softmax, in_parts, 2.5), (softmax, row_by_row, 1.25), (bytes_product, tensorized, 1.0),
]  # fmt: skip
"""A function, its schedule, and the seconds by which its record is known."""


def write(folder):
    os.makedirs(folder, exist_ok=True)
    database = ms.database.JSONDatabase(work_dir=folder)
    for made, schedule, seconds in CASES:
        mod = tvm.IRModule({"main": made()})
        sch = tir.Schedule(mod)
        schedule(sch)
        workload = database.commit_workload(mod)
        args = ms.arg_info.ArgInfo.from_entry_func(mod)
        database.commit_tuning_record(ms.database.TuningRecord(sch.trace, workload, [seconds], TARGET, args))


def read(folder):
    """For each case: whether its workload is there, its trace makes its module, and the seconds of the best record."""
    database = ms.database.JSONDatabase(work_dir=folder)
    found = []
    for made, schedule, seconds in CASES:
        mod = tvm.IRModule({"main": made()})
        known = bool(database.has_workload(mod))
        [record] = [r for r in database.get_all_tuning_records() if [float(s) for s in r.run_secs] == [seconds]]
        wanted, sch = tir.Schedule(mod), tir.Schedule(record.workload.mod)
        schedule(wanted)
        record.trace.apply_to_schedule(sch, remove_postproc=False)
        same = bool(tvm.ir.structural_equal(sch.mod, wanted.mod))
        best = float(database.query_tuning_record(mod, TARGET, "main").run_secs[0])
        found.append((schedule.__name__, known, same, best))
    return found


if __name__ == "__main__":
    if sys.argv[1] == "--read":
        print(*read(sys.argv[2]), sep="\n")
    else:
        write(sys.argv[1])
