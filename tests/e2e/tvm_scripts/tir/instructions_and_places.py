"""Traces made of instructions, places of statements in a schedule, and what blocks wait for."""

import tvm
from tvm import tir
from tvm.script import tir as T
from tvm.tir.schedule import BlockRV, DepKind, Instruction, InstructionKind, LoopRV, ScheduleState, StmtSRef, Trace


@T.prim_func
def chain(a: T.handle, d: T.handle) -> None:
    A = T.match_buffer(a, (16, 32))
    D = T.match_buffer(d, (16, 32))
    B = T.alloc_buffer((16, 32))
    C = T.alloc_buffer((16, 32))
    for i, j in T.grid(16, 32):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(16, 32):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)
    for i, j in T.grid(16, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + B[vi, vj]


block, loops = BlockRV(), [LoopRV(), LoopRV()]
found = Instruction(InstructionKind.get("GetBlock"), inputs=[], attrs=["C", "main"], outputs=[block])
around = Instruction(InstructionKind.get("GetLoops"), inputs=[block], attrs=[], outputs=loops)
inline = Instruction(InstructionKind.get("ComputeInline"), inputs=[block], attrs=[], outputs=[])
print(found)
print([kind.name for kind in (found.kind, inline.kind)], found.kind.is_pure, inline.kind.is_pure)
trace = Trace([found, around, inline], {})
print(trace)
print(trace.pop().kind.name, len(trace.insts))
trace.append(inline)
print(trace.simplified(remove_postproc=True))
sch = tir.Schedule(chain)
trace.apply_to_schedule(sch, remove_postproc=False)
print([sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))])

sch = tir.Schedule(chain)
i, j = sch.get_loops(sch.get_block("B"))
factors = sch.sample_perfect_tile(i, 2, 16, decision=[4, 4])
value = sch.sample_categorical([1, 2, 4], [0.25, 0.25, 0.5], decision=2)
sch.split(i, factors)
sch.annotate(j, "unroll", value)
sch.enter_postproc()
sch.vectorize(j)
print("\n".join(sch.trace.as_python()))
drawn = [inst for inst in sch.trace.insts if inst.kind.name.startswith("Sample")]
print([inst.kind.name for inst in drawn], len(sch.trace.decisions))
other = sch.trace.with_decision(drawn[0], [2, 8], remove_postproc=True)
print("\n".join(other.as_python()))
again = tir.Schedule(chain)
other.apply_to_schedule(again, remove_postproc=False)
print([int(again.get(loop).extent) for loop in again.get_loops(again.get_block("B"))])

sch = tir.Schedule(chain)
place = sch.get_sref(sch.get_block("C"))
print(isinstance(place, StmtSRef), place.stmt.name_hint, place.parent.stmt.loop_var.name)
root = sch.get_sref(sch.get_block("root"))
scope = sch.state.get_block_scope(root)
for dep in scope.get_deps_by_src(sch.get_sref(sch.get_block("B"))):
    print(dep.src.stmt.name_hint, dep.dst.stmt.name_hint, dep.kind == DepKind.RAW)
print(len(scope.get_deps_by_dst(sch.get_sref(sch.get_block("D")))))
state = ScheduleState(chain, debug_mask="all")
print(tvm.ir.structural_equal(state.mod["main"], chain))
