"""Sampling with a seed, decisions, copies of schedules, a schedule made again from its trace."""

import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def copy(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]


sch = tir.Schedule(copy, seed=7)
i, j = sch.get_loops("B")
factors = sch.sample_perfect_tile(i, n=2, max_innermost_factor=16)
sch.split(i, factors)
values = [int(sch.get(f)) for f in factors]
print(len(values), values[0] * values[1], values[1] <= 16)
choice = sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
print(int(sch.get(choice)) in (1, 2, 4))
fixed = sch.sample_perfect_tile(j, n=3, decision=[4, 4, 4])
print([int(sch.get(f)) for f in fixed])
sch.split(j, fixed)

again = tir.Schedule(copy)
sch.trace.apply_to_schedule(again, remove_postproc=False)
print(tvm.ir.structural_equal(again.mod, sch.mod), len(again.trace.insts) == len(sch.trace.insts))
other = sch.copy()
other.parallel(other.get_loops("B")[0])
print(tvm.ir.structural_equal(other.mod, sch.mod), len(other.trace.insts) - len(sch.trace.insts))
sch.enter_postproc()
sch.parallel(sch.get_loops("B")[0])
short = tir.Schedule(copy)
sch.trace.apply_to_schedule(short, remove_postproc=True)
print(tvm.ir.structural_equal(short.mod, again.mod))
print(len(sch.trace.simplified(remove_postproc=True).insts) < len(sch.trace.insts))
print(type(sch.state).__name__ != "", sch.func_working_on.name_hint, type(sch.mod).__name__)
sch.work_on("main")
for wrong in (lambda: sch.work_on("nothing"), lambda: sch.sample_perfect_tile(i, n=0)):
    try:
        wrong()
        print("no error")
    except Exception as error:
        print("refused")
