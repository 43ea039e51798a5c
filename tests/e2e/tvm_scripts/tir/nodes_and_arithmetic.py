"""Nodes: fields, operators, types, constants, structural equality, JSON."""

import tvm
from tvm import te, tir

x, y = te.var("x"), te.var("y", "int64")
e = x * 2 + 1
print(type(e).__name__, type(e.a).__name__, e.b.value, e.dtype)
print((x + y).dtype, (x + 1.5).dtype, (x < 3).dtype, tir.const(3, "int8").dtype, tir.const(True, "bool").dtype)
print(type(x // 2).__name__, type(x % 2).__name__, type(tir.truncdiv(x, 2)).__name__)
print(type(tir.all(x > 1, x < 5)).__name__, type(tir.any(x > 1, x < 5)).__name__, type(tir.Not(x > 1)).__name__)
print(tir.min_value("int8").value, tir.max_value("uint8").value, tir.max_value("int32").value)
print(tir.IntImm("int32", 5) == 5, tir.FloatImm("float32", 0.5).value, tir.StringImm("text").value)
print(type(tir.Select(x > 0, x, -x)).__name__, type(tir.Cast("float32", x)).__name__, type(tir.Ramp(x, 1, 4)).__name__)
print(tir.Ramp(x, 1, 4).dtype, tir.Broadcast(x, 4).dtype, tir.Shuffle([tir.Broadcast(x, 2)], [0]).dtype)
for bad in (lambda: bool(x > 1), lambda: int(x), lambda: tir.const("text", "int32"), lambda: x / 2 if False else x / y.op):
    try:
        bad()
        print("no error")
    except Exception as error:
        print("refused")
a, b = te.var("a"), te.var("b")
print(tvm.ir.structural_equal(a + 1, a + 1), tvm.ir.structural_equal(a + 1, b + 1))
print(tvm.ir.structural_equal(a + 1, b + 1, map_free_vars=True))
print(tvm.ir.structural_hash(tir.const(1, "int32")) == tvm.ir.structural_hash(tir.const(1, "int32")))
r = tvm.ir.Range(2, 8)
print(r.min.value, r.extent.value, tvm.ir.Range.from_min_extent(3, 4).extent.value)
iv = tir.IterVar(tvm.ir.Range(0, 10), te.var("i"), tir.IterVar.CommReduce)
print(iv.dom.extent.value, iv.var.name, int(iv.iter_type))
buf = tir.decl_buffer((4, 6), "float32", name="buf")
print(buf.name, [int(d) for d in buf.shape], buf.dtype, type(buf.vload([1, 2])).__name__)
print(type(buf.access_ptr("r")).__name__, buf.access_ptr("rw").dtype)
let = tir.Let(a, tir.const(3, "int32"), a + 1)
print(type(let).__name__, let.value.value)
ite = tir.IfThenElse(x > 0, tir.Evaluate(1), tir.Evaluate(0))
print(type(ite.then_case).__name__, ite.else_case.value.value)
seq = tir.SeqStmt([tir.Evaluate(1), tir.Evaluate(2)])
print(len(seq), seq[1].value.value)
store = tir.BufferStore(buf, tir.const(1.0, "float32"), [0, 0])
print(store.buffer.same_as(buf), [int(i) for i in store.indices])
call = tir.call_intrin("float32", "tir.exp", tir.const(1.0, "float32"))
print(call.op.name, call.dtype, len(call.args))
print(tir.exp(tir.Cast("float32", x)).op.name, tir.popcount(x).dtype, tir.power(2.0, tir.Cast("float32", x)).dtype)
