"""Bounds that a te schedule infers, and the relations of its loops."""

import tvm
from tvm import te


def shown(bounds, axes):
    return [(str(bounds[a].min), str(bounds[a].extent)) for a in axes]


A = te.placeholder((64, 32), name="A")
B = te.compute((64, 32), lambda i, j: A[i, j] + 1.0, name="B")
C = te.compute((64, 32), lambda i, j: B[i, j] * 2.0, name="C")
s = te.create_schedule(C.op)
xo, xi = s[C].split(C.op.axis[0], factor=8)
s[B].compute_at(s[C], xo)
b = te.schedule.InferBound(s)
print(shown(b, [xo, xi]), str(b[B.op.axis[0]].extent), str(b[B.op.axis[1]].extent))
s = te.create_schedule(C.op)
xo, xi = s[C].split(C.op.axis[1], nparts=4)
f = s[C].fuse(C.op.axis[0], xo)
b = te.schedule.InferBound(s)
print(shown(b, [f, xi, B.op.axis[0], B.op.axis[1]]))
s = te.create_schedule(C.op)
tx = te.thread_axis((0, 16), "threadIdx.x")
xo, xi = s[C].split(C.op.axis[0], nparts=16)
s[C].bind(xo, tx)
s[B].compute_at(s[C], xo)
b = te.schedule.InferBound(s.normalize())
print(shown(b, [tx]), str(b[B.op.axis[0]].extent))
s = te.create_schedule(C.op)
print(
    [st.op.name for st in s.stages],
    [int(st.is_output) for st in s.stages],
    [type(r).__name__ for r in s[C].relations],
    [int(t) for t in (s[C].attach_type, s[B].attach_type)],
)
s[B].compute_inline()
print(int(s[B].attach_type), len(s.normalize().stages))
AA = s.cache_read(A, "local", [B])
CC = s.cache_write(C, "local")
print([st.op.name for st in s.stages], AA.op.name, CC.op.name, s[AA].scope, s[CC].scope)
s = te.create_schedule(C.op)
a, bb, c, d = s[C].tile(C.op.axis[0], C.op.axis[1], 4, 8)
print([v.var.name for v in s[C].leaf_iter_vars], [type(r).__name__ for r in s[C].relations])
s[C].unroll(d)
s[C].parallel(a)
print([int(s[C].iter_var_attrs[v].iter_type) for v in (a, d)])
for wrong in (lambda: s[C].split(a), lambda: s[C].reorder(a, a), lambda: s[C].fuse(a, d)):
    try:
        wrong()
        print("fine")
    except (ValueError, tvm.TVMError):
        print("refused")
print(C.op.input_tensors[0].op.name, bool(C.op.input_tensors[0] == B), B.op.body[0] is not None, C.shape[0], C.op.num_outputs)
