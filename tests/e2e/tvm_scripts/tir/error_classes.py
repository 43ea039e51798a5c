"""The classes of errors that mistakes raise, as far as programs catch them."""

import tvm
from tvm import te, tir

A = te.placeholder((4, 4), name="A")
B = te.placeholder((4, 4), name="B")
C = te.compute((4, 4), lambda i, j: A[i, j] + 1, name="C")
n = te.var("n")
f = te.var("f", "float32")
buf = tir.decl_buffer((4, 4), "float32", "buf")
module = tvm.IRModule({"main": te.create_prim_func([A, C])})


def split_nothing():
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0])


cases = {
    "a tensor compared": (lambda: A > 1, RuntimeError),
    "two tensors compared": (lambda: A < B, RuntimeError),
    "the length of a tensor": (lambda: len(A), TypeError),
    "a condition as a truth value": (lambda: bool(n > 1), ValueError),
    "a variable as a number": (lambda: int(n), TypeError),
    "a variable and a text": (lambda: n + "x", Exception),
    "a quotient of integers": (lambda: n / 2, RuntimeError),
    "a shift by a float": (lambda: n << f, RuntimeError),
    "arguments of compute": (lambda: te.compute((4,), lambda i, j: 1), TypeError),
    "a sum without axis": (lambda: te.compute((4,), lambda i: te.sum(A[i, 0])), TypeError),
    "a domain that is none": (lambda: te.reduce_axis(3), TypeError),
    "a thread without tag": (lambda: te.thread_axis(), ValueError),
    "a split without factor": (split_nothing, Exception),
    "a store of another type": (lambda: tir.BufferStore(buf, tir.const(1, "int32"), [0, 0]), TypeError),
    "a function that is not there": (lambda: tvm.get_global_func("no.such.function"), ValueError),
    "a module's function": (lambda: tvm.IRModule({})["x"], ValueError),
    "an operator": (lambda: tvm.ir.Op.get("no.such.operator"), RuntimeError),
    "a target": (lambda: tvm.target.Target("nothing"), ValueError),
    "an option": (lambda: tvm.target.Target("llvm -nothing=1"), ValueError),
    "no target": (lambda: tvm.target.Target.current(allow_none=False), Exception),
    "a device": (lambda: tvm.device("nothing"), Exception),
    "a schedule of a number": (lambda: tir.Schedule(3), TypeError),
    "a block": (lambda: tir.Schedule(module).get_block("x"), tir.ScheduleError),
    "an object without nodes": (lambda: tvm.ir.save_json(object()), TypeError),
    "unequal": (lambda: tvm.ir.assert_structural_equal(n + 1, n + 2), ValueError),
    "an option of passes": (lambda: tvm.transform.PassContext(config={"no.such": 1}), Exception),
    "no Python": (lambda: tvm.script.from_source("x ="), SyntaxError),
    "an extern without statement": (lambda: te.extern((4,), [A], lambda i, o: None), ValueError),
}
for name, (mistake, wanted) in cases.items():
    try:
        mistake()
        print(name, "nothing")
    except Exception as error:
        print(name, wanted.__name__, isinstance(error, wanted))
