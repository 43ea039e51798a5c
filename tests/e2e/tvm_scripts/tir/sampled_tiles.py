"""Sampling: categorical and tile decisions, seeds, replayed traces, annotations."""

import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def copy(A: T.Buffer((64, 48), "float32"), B: T.Buffer((64, 48), "float32")):
    for i, j in T.grid(64, 48):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


sch = tir.Schedule(copy, seed=42)
i, j = sch.get_loops(sch.get_block("B"))
tiles = sch.sample_perfect_tile(i, n=3, max_innermost_factor=8)
sizes = [int(sch.get(t)) for t in tiles]
print(len(tiles), int(np.prod(sizes)), sizes[-1] <= 8)
sch.split(i, tiles)
choice = sch.sample_categorical([4, 8, 16], [0.25, 0.5, 0.25])
print(int(sch.get(choice)) in (4, 8, 16))
sch.annotate(sch.get_block("B"), "note", choice)
print(int(sch.get(sch.get_block("B")).annotations["note"]) == int(sch.get(choice)))
sch.unannotate(sch.get_block("B"), "note")
print("note" in sch.get(sch.get_block("B")).annotations)
other = tir.Schedule(copy)
sch.trace.apply_to_schedule(other, remove_postproc=False)
print(tvm.ir.structural_equal(other.mod, sch.mod), len(sch.trace.insts), len(sch.trace.decisions))
first, second = tir.Schedule(copy, seed=7), tir.Schedule(copy, seed=7)
draws = []
for each in (first, second):
    x, y = each.get_loops(each.get_block("B"))
    draws.append([int(each.get(t)) for t in each.sample_perfect_tile(y, n=2)])
print(draws[0] == draws[1], int(np.prod(draws[0])))
fork = sch.fork_seed()
print(isinstance(fork, int), sch.copy().mod is not None)
location = sch.sample_compute_location(sch.get_block("B"))
print(type(location).__name__)
lines = str(sch.trace).strip().splitlines()
print(any("sample_perfect_tile" in line for line in lines), any("sample_categorical" in line for line in lines))
