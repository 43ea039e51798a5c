"""Databases of meta_schedule: commit, query, order, union, JSON."""

import os
import tempfile

import tvm
from tvm import meta_schedule as ms
from tvm import tir
from tvm.script import tir as T
from tvm.target import Target


def module(n):
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main"})
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * 2.0

    return tvm.IRModule({"main": main})


llvm = Target("llvm -num-cores=2")
mod = module(64)


def traced(factor):
    sch = tir.Schedule(mod)
    (loop,) = sch.get_loops(sch.get_block("B"))
    sch.split(loop, [None, factor])
    return sch.trace


db = ms.database.MemoryDatabase()
w = db.commit_workload(mod)
print(bool(db.has_workload(mod)), bool(db.has_workload(module(32))), len(db))
for factor, secs in ((4, [3.0]), (8, [1.0, 1.0]), (16, [2.0]), (2, None)):
    db.commit_tuning_record(
        ms.database.TuningRecord(traced(factor), w, secs, llvm, ms.arg_info.ArgInfo.from_prim_func(mod["main"]))
    )
print(
    len(db),
    [[float(s) for s in r.run_secs] for r in db.get_top_k(w, 2)],
    len(db.get_top_k(w, 10)),
    len(db.get_all_tuning_records()),
)
best = db.query_tuning_record(mod, llvm, "main")
print(
    [float(s) for s in best.run_secs],
    best.workload.shash == w.shash if hasattr(best.workload, "shash") else True,
    best.target.kind.name,
)
print(
    db.query_schedule(mod, llvm, "main") is not None,
    db.query_ir_module(mod, llvm, "main") is not None,
    db.query_tuning_record(module(32), llvm, "main"),
)
folder = tempfile.mkdtemp()
js = ms.database.JSONDatabase(os.path.join(folder, "w.json"), os.path.join(folder, "r.json"))
wj = js.commit_workload(mod)
for r in db.get_top_k(w, 3):
    js.commit_tuning_record(ms.database.TuningRecord(r.trace, wj, r.run_secs, r.target, r.args_info))
again = ms.database.JSONDatabase(os.path.join(folder, "w.json"), os.path.join(folder, "r.json"))
print(len(again), [[float(s) for s in r.run_secs] for r in again.get_top_k(again.commit_workload(mod), 5)])
print(tvm.ir.structural_equal(again.query_ir_module(mod, llvm, "main"), db.query_ir_module(mod, llvm, "main")))
union = ms.database.UnionDatabase(ms.database.MemoryDatabase(), db)
ordered = ms.database.OrderedUnionDatabase(ms.database.MemoryDatabase(), again)
print(
    union.query_tuning_record(mod, llvm, "main") is not None, ordered.query_tuning_record(mod, llvm, "main") is not None
)
with db:
    print(ms.database.Database.current() is not None)
fn = ms.database.ScheduleFnDatabase(lambda sch: (sch.split(sch.get_loops(sch.get_block("B"))[0], [None, 4]), True)[1])
print(
    len(
        [1 for line in fn.query_ir_module(mod, llvm, "main").script().splitlines() if "range" in line or "grid" in line]
    )
)
r = db.get_top_k(w, 1)[0]
data = r.as_json()
print(len(data), ms.database.TuningRecord.from_json(data, w).run_secs is not None)
print(r.as_measure_candidate().sch is not None, ms.database.Workload.from_json(w.as_json()).mod is not None)
