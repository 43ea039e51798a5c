"""Steps that schedules refuse, and how."""

import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def matmul(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def refused(name, act):
    sch = tir.Schedule(matmul, error_render_level="none")
    try:
        act(sch, sch.get_block("C"), sch.get_loops(sch.get_block("C")))
        print(name, "no error")
    except Exception as error:
        print(name, isinstance(error, tir.ScheduleError), isinstance(error, tvm.TVMError))


refused("no such block", lambda s, b, loops: s.get_block("D"))
refused("parallel over a reduction", lambda s, b, loops: s.parallel(loops[2]))
refused("vectorized reduction", lambda s, b, loops: s.vectorize(loops[2]))
refused("fused out of order", lambda s, b, loops: s.fuse(loops[0], loops[2]))
refused("factors too small", lambda s, b, loops: s.split(loops[0], [2, 2]))
refused("inlined reduction", lambda s, b, loops: s.compute_inline(b))
refused("bad reorder", lambda s, b, loops: s.reorder(loops[0], loops[0]))
refused("two bindings", lambda s, b, loops: (s.bind(loops[0], "threadIdx.x"), s.bind(loops[0], "threadIdx.x")))
refused("decomposed at the wrong loop", lambda s, b, loops: s.decompose_reduction(b, s.split(loops[2], [2, 4])[1]))
refused("cached read that is not there", lambda s, b, loops: s.cache_read(b, 5, "local"))
try:
    tir.Schedule("not a module")
    print("no error")
except Exception as error:
    print("refused", isinstance(error, (TypeError, ValueError)))
