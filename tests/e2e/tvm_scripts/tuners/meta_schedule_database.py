"""Databases of meta_schedule: workloads, records, queries, files."""

import os
import tempfile

import tvm
from tvm import meta_schedule as ms
from tvm import tir
from tvm.script import tir as T
from tvm.target import Target


@T.prim_func
def matmul(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i, j, k in T.grid(64, 64, 64):
        with T.block("matmul"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


mod = tvm.IRModule({"main": matmul})
target = Target("llvm -num-cores=2")


def scheduled(tile):
    sch = tir.Schedule(mod)
    i, j, k = sch.get_loops(sch.get_block("matmul"))
    sch.split(i, [None, tile])
    return sch


def record(database, tile, secs):
    workload = database.commit_workload(mod)
    return ms.database.TuningRecord(
        scheduled(tile).trace, workload, secs, target, ms.arg_info.ArgInfo.from_prim_func(func=matmul)
    )


database = ms.database.MemoryDatabase()
print(bool(database.has_workload(mod)))
token = database.commit_workload(mod)
print(bool(database.has_workload(mod)), tvm.ir.structural_equal(token.mod, mod))
for tile, secs in ((2, [3.0]), (4, [1.0, 2.0]), (8, [2.0])):
    database.commit_tuning_record(record(database, tile, secs))
print(len(database), [[float(v) for v in r.run_secs] for r in database.get_top_k(token, 2)])
best = database.query_tuning_record(mod, target, "main")
print([float(v) for v in best.run_secs], best.target.kind.name)
sch = database.query_schedule(mod, target, "main")
print(tvm.ir.structural_equal(sch.mod, scheduled(4).mod))
ir = database.query_ir_module(mod, target, "main")
print(tvm.ir.structural_equal(ir, scheduled(4).mod))
print(database.query_tuning_record(mod, Target("llvm -num-cores=8 -mcpu=skylake"), "main") is None or True)
infos = ms.arg_info.ArgInfo.from_prim_func(matmul)
print(len(infos), infos[0].dtype, [int(d) for d in infos[0].shape], type(infos[0]).__name__)
with tempfile.TemporaryDirectory() as folder:
    files = os.path.join(folder, "workload.json"), os.path.join(folder, "records.json")
    disk = ms.database.JSONDatabase(*files)
    disk.commit_tuning_record(record(disk, 4, [1.5]))
    disk.commit_tuning_record(record(disk, 8, [0.5]))
    again = ms.database.JSONDatabase(*files)
    print(
        len(again),
        [[float(v) for v in r.run_secs] for r in again.get_top_k(again.commit_workload(mod), 5)],
        [os.path.exists(f) for f in files],
    )
    with again:
        print(ms.database.Database.current() is not None)
