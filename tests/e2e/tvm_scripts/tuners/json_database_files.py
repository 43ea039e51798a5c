"""The two files of a JSON database: what is in them, and what is read back."""

import json
import os
import tempfile

import tvm
from tvm import meta_schedule as ms
from tvm import te, tir
from tvm.target import Target

A = te.placeholder((32, 48), name="A")
B = te.placeholder((48, 16), name="B")
k = te.reduce_axis((0, 48), name="k")
C = te.compute((32, 16), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
D = te.compute((32, 16), lambda i, j: te.max(C[i, j], 0.0) + te.exp(te.if_then_else(i < j, A[i, j], 1.5)), name="D")
product = tvm.IRModule({"main": te.create_prim_func([A, B, D])})
X = te.placeholder((128,), "int32", name="X")
Y = te.compute((128,), lambda i: X[i] // 3 + i, name="Y")
numbers = tvm.IRModule({"main": te.create_prim_func([X, Y])})
target = Target("llvm -num-cores=4 -mcpu=skylake")


def tiled(tile):
    sch = tir.Schedule(product)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, tile])
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 16, decision=[16 // tile, tile]))
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(sch.get_block("D"), j0)
    sch.vectorize(j1)
    sch.parallel(i0)
    sch.annotate(i0, "pragma_auto_unroll_max_step", sch.sample_categorical([0, 16, 64], [0.25, 0.25, 0.5], decision=1))
    sch.decompose_reduction(block, k)
    return sch


def fused():
    sch = tir.Schedule(numbers)
    (i,) = sch.get_loops(sch.get_block("Y"))
    outer, inner = sch.split(i, [8, None])
    sch.parallel(outer)
    sch.vectorize(inner)
    return sch


def commit(database, sch, mod, secs):
    workload = database.commit_workload(mod)
    args = ms.arg_info.ArgInfo.from_entry_func(mod)
    database.commit_tuning_record(ms.database.TuningRecord(sch.trace, workload, secs, target, args))


def plain(found):
    if isinstance(found, (str, int, float)) or found is None:
        return found
    return [plain(item) for item in found]


with tempfile.TemporaryDirectory() as folder:
    database = ms.database.JSONDatabase(work_dir=folder)
    for tile, secs in ((2, [3.0, 2.5]), (4, [1.0]), (8, [1.5, 0.25])):
        commit(database, tiled(tile), product, secs)
    commit(database, fused(), numbers, [0.125])
    commit(database, tiled(4), product, [0.5])
    workloads = open(os.path.join(folder, "database_workload.json")).read().splitlines()
    records = open(os.path.join(folder, "database_tuning_record.json")).read().splitlines()
    print(sorted(os.listdir(folder)), len(workloads), len(records))
    for line in workloads:
        key, text = json.loads(line)
        print(key.isdigit(), len(text) > 1000)
    for line in records:
        number, (trace, secs, options, args) = json.loads(line)
        print(number, json.dumps(trace), [float(s) for s in secs], options["kind"], options["mcpu"], options["num-cores"], args)
    again = ms.database.JSONDatabase(work_dir=folder)
    token = again.commit_workload(product)
    print(len(again), len(open(os.path.join(folder, "database_workload.json")).read().splitlines()))
    # records of one trace are all kept
    print([[float(s) for s in r.run_secs] for r in again.get_top_k(token, 10)])
    for record in sorted(again.get_all_tuning_records(), key=lambda r: float(r.run_secs[0])):
        sch = tir.Schedule(record.workload.mod)
        record.trace.apply_to_schedule(sch, remove_postproc=False)
        other = {len(record.workload.mod["main"].params): None}
        print(len(other), [str(info.dtype) for info in record.args_info], record.target.mcpu, int(record.target.attrs["num-cores"]))
    for tile in (2, 4, 8):
        best = [r for r in again.get_top_k(token, 10)]
        mods = [r.as_measure_candidate().sch.mod for r in best]
        print(tile, [tvm.ir.structural_equal(mod, tiled(tile).mod) for mod in mods])
    best = again.query_ir_module(numbers, target, "main")
    tvm.ir.assert_structural_equal(best["main"].body, fused().mod["main"].body)
