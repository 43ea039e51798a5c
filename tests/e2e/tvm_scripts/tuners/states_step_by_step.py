"""auto_scheduler: states made by hand, their bounds, their schedules, and their lines in a log."""

import json
import os
import tempfile

import numpy as np
import tvm
from tvm import auto_scheduler, te
from tvm.auto_scheduler import measure_record


@auto_scheduler.register_workload
def product(n, m, k):
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return [A, B, C]


@auto_scheduler.register_workload
def product_and_bias(n):
    A, B, C = product(n, n, n)
    D = te.compute((n, n), lambda i, j: C[i, j] + te.const(1.0, "float32"), name="D")
    return [A, B, D]


def shown(stage):
    return [(it.name, int(it.range.extent), it.annotation) for it in stage.iters]


A, B, C = product(64, 64, 64)
dag = auto_scheduler.ComputeDAG([A, B, C])
print(dag, dag.flop_ct)

state = dag.get_init_state()
i, j, k = state[C].iters
rows = state.split(C, i, [4, 8])
columns = state.split(C, j, [16])
state.reorder(C, [rows[0], columns[0], rows[1], k, rows[2], columns[1]])
fused = state.fuse(C, [rows[0], columns[0]])
state.parallel(C, fused)
state.unroll(C, state[C].iters[3])
state.vectorize(C, state[C].iters[4])
state.pragma(C, state[C].iters[0], "auto_unroll_max_step$16")
print(state)
print(shown(state[C]), len(state.transform_steps))
print(dag.print_python_code_from_state(state))
kept = state.copy()

schedule, tensors = dag.apply_steps_from_state(state)
built = tvm.build(schedule, tensors, "llvm")
a, b = np.random.rand(64, 64).astype("float32"), np.random.rand(64, 64).astype("float32")
c = tvm.nd.array(np.zeros((64, 64), "float32"))
built(tvm.nd.array(a), tvm.nd.array(b), c)
print(np.allclose(c.numpy(), a @ b, rtol=1e-4))

state = dag.get_init_state()
cache = state.cache_write(C, "global")
tiles = state.split(C, state[C].iters[0], [2, 8])
state.follow_split(cache, state[cache].iters[0], len(state.transform_steps) - 1, 2)
print(shown(state[cache]), [op.name for op in state.stage_ops])
copy = state.cache_read(B, "global", [cache])
print(copy.name, [op.name for op in state.stage_ops])
state.compute_at(cache, C, tiles[1])
print(state)
print(dag.infer_bound_from_state(state))
state.compute_root(cache)

two = auto_scheduler.ComputeDAG(product_and_bias(32))
state = two.get_init_state()
inner = state.stage_ops[2]
outer = state.stage_ops[3]
state.compute_at(inner, outer, state[outer].iters[0])
print(two.infer_bound_from_state(state))
state.compute_root(inner)
print(state)

task = auto_scheduler.SearchTask(func=product, args=(64, 64, 64), target="llvm")
result = auto_scheduler.MeasureResult([0.5, 0.25], 0, "", 0.75, 1)
line = measure_record.dump_record_to_string(auto_scheduler.MeasureInput(task, kept), result)
row = json.loads(line)
print(row["i"][1], row["r"], row["v"])
inp, again = measure_record.load_record_from_string(line)
print(len(inp.state.transform_steps), [float(x) for x in again.costs])
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "log.json")
    auto_scheduler.save_records(log, [auto_scheduler.MeasureInput(task, kept)], [result])
    best, _ = auto_scheduler.load_best_record(log, task.workload_key)
    whole = auto_scheduler.measure.recover_measure_input(best)
    print(whole.task.compute_dag.infer_bound_from_state(whole.state))
    schedule, tensors = task.apply_best(log)
    built = tvm.build(schedule, tensors, "llvm")
    built(tvm.nd.array(a), tvm.nd.array(b), c)
    print(np.allclose(c.numpy(), a @ b, rtol=1e-4))
    print(task.print_best(log) == dag.print_python_code_from_state(kept))
