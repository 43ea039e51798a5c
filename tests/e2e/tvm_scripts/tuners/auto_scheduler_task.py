"""auto_scheduler: workloads, tasks, the computation's graph, a short search, its log."""

import os
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import auto_scheduler, te


@auto_scheduler.register_workload
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


target = tvm.target.Target("llvm")
task = auto_scheduler.SearchTask(func=matmul_add, args=(32, 32, 32, "float32"), target=target)
print(task.compute_dag.flop_ct, len(task.compute_dag.tensors), task.workload_key[:13], task.desc == "")
print(len(str(task.compute_dag).splitlines()), "matmul(i, j) +=" in str(task.compute_dag))
print([type(op).__name__ for op in task.compute_dag.ops])
log = os.path.join(tempfile.mkdtemp(), "matmul.json")
options = auto_scheduler.TuningOptions(
    num_measure_trials=4,
    measure_callbacks=[auto_scheduler.RecordToFile(log)],
    runner=auto_scheduler.LocalRunner(number=1, repeat=1, min_repeat_ms=0),
    verbose=0,
)
policy = auto_scheduler.SketchPolicy(task, program_cost_model=auto_scheduler.RandomModel(), verbose=0)
task.tune(options, search_policy=policy)
inputs, results = auto_scheduler.RecordReader(log).read_lines()
print(
    len(inputs), [r.error_no for r in results] == [0] * len(results), inputs[0].task.workload_key == task.workload_key
)
sch, args = task.apply_best(log)
func = tvm.build(sch, args, target)
a, b, c = (np.random.RandomState(i).rand(32, 32).astype("float32") for i in range(3))
out = tvm.nd.empty((32, 32))
func(tvm.nd.array(a), tvm.nd.array(b), tvm.nd.array(c), out)
tvm.testing.assert_allclose(out.numpy(), a @ b + c, rtol=1e-4)
print(len(args), task.print_best(log, print_mode="schedule") != "")
inp, res = auto_scheduler.load_best_record(log, task.workload_key)
print(inp.task.workload_key == task.workload_key, len(res.costs))
hardware = auto_scheduler.HardwareParams(4, 32, 64, 0, 0, 0, 0, 0)
print(hardware.num_cores, hardware.vector_unit_bytes, hardware.cache_line_bytes)
print(auto_scheduler.make_workload_key(matmul_add, (1, 2, 3, "float32")) != task.workload_key)
