"""Helpers of the tuners' packages."""

import numpy as np
from tvm import auto_scheduler, autotvm, te
from tvm.auto_scheduler.utils import array_mean, list_to_tuple
from tvm.autotvm.task.space import get_factors, get_pow2s
from tvm.autotvm.utils import format_si_prefix, get_const_int, get_const_tuple, get_rank

print(sorted(get_factors(24)), sorted(get_pow2s(20)))
print(get_const_int(te.const(7, "int32")), get_const_tuple((te.const(3, "int32"), 4)))
print(format_si_prefix(3.2e9, "G"), len(get_rank(np.array([1.0, 9.0, 4.0]))))
print(list_to_tuple([1, [2, [3]]]), array_mean([te.const(1.0, "float32"), te.const(5.0, "float32")]))


@auto_scheduler.register_workload
def twice(n):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] * 2, name="B")]


key = auto_scheduler.make_workload_key(twice, (16,))
print(key, auto_scheduler.workload_registry.workload_key_to_tensors(key)[1].op.name)
cfg = autotvm.ConfigSpace()
axis = autotvm.task.space.VirtualAxis(16, "x")
cfg.define_split("tile", axis, num_outputs=2)
cfg.define_knob("unroll", [0, 1])
print(len(cfg), cfg.get(0)["unroll"].val, cfg.get(0)["tile"].size[1] >= 1)
