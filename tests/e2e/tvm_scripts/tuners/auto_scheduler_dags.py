"""Compute DAGs of auto_scheduler: texts, states, keys, records."""

import json
import os
import tempfile

from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def prog_matmul(n, m, k):
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    D = te.compute((n, m), lambda i, j: C[i, j] + 1.0, name="D")
    return [A, B, D]


key = auto_scheduler.make_workload_key(prog_matmul, (16, 16, 16))
print(key)
task = auto_scheduler.SearchTask(func=prog_matmul, args=(16, 16, 16), target="llvm")
dag = task.compute_dag
print(task.workload_key == key, int(dag.flop_ct), len(dag.tensors), [op.name for op in dag.ops])
state = dag.get_init_state()
print([stage.op.name for stage in state.stages], [len(stage.iters) for stage in state.stages])
C = state.stage_ops[2]
i, j, k = state[C].iters
io, ii = state.split(C, i, [4])
jo, ji = state.split(C, j, [8])
state.reorder(C, [io, jo, k, ii, ji])
state.vectorize(C, ji)
state.parallel(C, io)
state.pragma(C, state[C].iters[0], "auto_unroll_max_step$16")
print([it.name for it in state[C].iters])
D = state.stage_ops[3]
state.compute_at(C, D, state[D].iters[0])
print([it.name for it in state[D].iters], len(state.transform_steps))
sch, args = dag.apply_steps_from_state(state)
print(
    len(args),
    "s[C].split" in dag.print_python_code_from_state(state),
    "vectorize" in dag.print_python_code_from_state(state),
)
bounded = dag.infer_bound_from_state(state)
print([(it.name, int(it.range.extent)) for it in bounded[C].iters])
inp = auto_scheduler.MeasureInput(task, state)
res = auto_scheduler.MeasureResult([0.25], 0, "", 1.0, 2.0)
path = os.path.join(tempfile.mkdtemp(), "log.json")
auto_scheduler.save_records(path, [inp], [res])
line = json.loads(open(path).read())
print(sorted(line), line["r"][0], line["i"][0][0] == key)
for back, result in auto_scheduler.load_records(path):
    print(back.task.workload_key == key, [float(c) for c in result.costs])
best, res = auto_scheduler.load_best_record(path, key)
print(best is not None, float(res.costs[0]))
print(str(dag).count("placeholder"), "C(i, j)" in str(dag))
print(dag.workload_key() == auto_scheduler.ComputeDAG(key).workload_key())
