"""A schedule's account of itself: relations, leaves, annotations, bounds, and what it refuses."""

import tvm
from tvm import te

m, n = te.size_var("m"), te.size_var("n")
A = te.placeholder((m, n), name="A")
T = te.compute((m, n), lambda i, j: A[i, j] + 1, name="T")
C = te.compute((m, n), lambda i, j: T[i, j] * 2, name="C")
s = te.create_schedule(C.op)
i, j = C.op.axis
io, ii = s[C].split(i, factor=10)
print(io.var.name, ii.var.name, tuple(v.var.name for v in s[C].leaf_iter_vars))
fused = s[C].fuse(ii, j)
print(fused.var.name, [type(r).__name__ for r in s[C].relations])
s[T].compute_at(s[C], io)
print(s[T].attach_type, bool(s[T].is_output), bool(s[C].is_output), s[T].attach_stage.op.name)
s[C].unroll(fused)
attrs = s[C].iter_var_attrs
print(len(attrs), int(attrs[fused].iter_type) == tvm.tir.IterVar.Unrolled)
s[C].pragma(io, "auto_unroll_max_step", 16)
print([getattr(key, "value", key) for key in s[C].iter_var_attrs[io].pragma_keys])
print(len(C.op.input_tensors), C.op.input_tensors[0].op.name)
print([st.op.name for st in s.stages], [o.name for o in s.outputs], s[T].origin_op.name)
print(T.op.output(0).same_as(T) or bool(T.op.output(0) == T), hash(T) == hash(T.op.output(0)))

for wrong in (
    lambda: s[C].split(i, factor=2),
    lambda: s[C].vectorize(te.reduce_axis((0, 2), "q")),
    lambda: te.compute((2,), lambda x, y: x),
):
    try:
        wrong()
        print("no error")
    except Exception as error:
        print(isinstance(error, (tvm.TVMError, ValueError, TypeError)))

s = te.create_schedule(C.op).normalize()
bounds = te.schedule.InferBound(s)
print(len(bounds) >= 4, bounds[C.op.axis[0]].extent.same_as(m))
stmt = te.schedule.ScheduleOps(s, bounds)
print(isinstance(stmt, tvm.tir.Stmt))

s = te.create_schedule(C.op)
te.schedule.AutoInlineElemWise(s)
print(s[T].attach_type)
s = te.create_schedule(C.op)
te.schedule.AutoInlineInjective(s)
print(s[T].attach_type)

s = te.create_schedule(C.op)
group = s.create_group(outputs=C, inputs=A, include_inputs=False)
print(group.attach_type, bool(s[T].group == group))
