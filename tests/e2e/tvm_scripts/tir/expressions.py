"""Expressions: folding, dtypes, equality, operators, printing, visiting, substitution."""

import tvm
from tvm import tir

x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
print(x + 0, x * 1, x * 0, tir.const(3) + 4, (x + y) * 2, x - y)
print(
    x < y,
    x <= 3,
    x > y,
    x >= y,
    tir.EQ(x, y),
    tir.NE(x, y),
    tir.all(x < 1, y < 2),
    tir.any(x < 1, y < 2),
    tir.Not(x < 1),
)
print(x // 2, x % 3, tir.max(x, y), tir.min(x, 3))
print(x & 1, x | 2, x ^ 3, x << 2, x >> 1, ~x)
print(x.astype("float32"), tir.Cast("int8", x), tir.Select(x > 0, x, y))
print(
    (x + tir.const(1, "int64")).dtype,
    (x + 1.5).dtype,
    tir.const(1, "int8").dtype,
    tir.const(2.5).dtype,
    tir.const(True).dtype,
)
print(bool(x == x), bool(x != y), (x == y).asobject().dtype)
print(
    tir.IntImm("int32", 5).value,
    tir.FloatImm("float32", 0.5).value,
    tir.StringImm("s").value,
    bool(tir.IntImm("int32", 3) == 3),
)
print(
    tvm.ir.structural_equal(x + 1, x + 1),
    tvm.ir.structural_equal(x + 1, y + 1),
    tvm.ir.structural_equal(x + 1, y + 1, map_free_vars=True),
)
print(
    tvm.ir.structural_equal(tir.stmt_functor.substitute(x + y, {x: tir.const(5, "int32")}), tir.const(5, "int32") + y),
    tvm.arith.Analyzer().simplify((x * 4 + 8) // 4),
)
found = []
tir.stmt_functor.post_order_visit((x + y) * x, lambda e: found.append(type(e).__name__))
print(found)
for wrong in (
    lambda: bool(x < y),
    lambda: tir.const(1, "int32") / tir.const(2, "int32"),
    lambda: tir.Var("z", "int32") + "text",
    lambda: x.astype("nonsense"),
):
    try:
        wrong()
        print("no error")
    except Exception:
        print("refused")
r = tir.Ramp(0, 1, 4)
print(r.dtype, tir.Broadcast(x, 4).dtype, r.lanes)
call = tir.call_extern("int32", "myfunc", x, 1)
print(call.op.name, call.dtype, call.args[0].value, len(call.args))
print(tir.call_intrin("float32", "tir.exp", tir.const(1.0, "float32")).op.name)
let = tir.Let(x, 5, x + 1)
print(let.value, let.var.same_as(x))
s = tir.SizeVar("s", "int64")
print(
    s.dtype,
    isinstance(s, tir.Var),
    tir.IterVar(tvm.ir.Range(0, 4), tir.Var("i", "int32"), tir.IterVar.DataPar).dom.extent,
)
