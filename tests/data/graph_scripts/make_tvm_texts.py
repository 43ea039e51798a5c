# ruff: noqa: E501, F841
# mypy: ignore-errors
"""Print modules with a version of Apache TVM, as data for tests of reading. Not run by the tests.

    python -m venv /tmp/tvm && /tmp/tvm/bin/pip install apache-tvm==0.25.0 apache-tvm-ffi==0.1.12 numpy
    /tmp/tvm/bin/python make_tvm_texts.py

writes the `tvm_0_25_….txt`. Those of 0.27 come from apache-tvm==0.27.0.post1 with apache-tvm-ffi==0.1.14.post1.
"""

from pathlib import Path
from types import SimpleNamespace as Names

import numpy as np
import tvm
from tvm import relax, tirx, topi

HERE = Path(__file__).parent

if hasattr(relax, "TensorStructInfo"):
    NAMES = Names(
        version="0_25", arguments="sinfo_args", result="out_sinfo", float32='R.Prim("float32")',
        Tensor=relax.TensorStructInfo, Shape=relax.ShapeStructInfo, Tuple=relax.TupleStructInfo,
        Any=relax.ObjectStructInfo, Prim=relax.PrimStructInfo, Func=relax.FuncStructInfo,
    )  # fmt: skip
else:
    NAMES = Names(
        version="0_27", arguments="ty_args", result="out_ty", float32="T.float32", Tensor=relax.TensorType,
        Shape=relax.ShapeType, Tuple=relax.TupleType, Any=relax.AnyType, Prim=tvm.ir.PrimType, Func=relax.FuncType,
    )  # fmt: skip

FUNCTIONS = """\
@I.ir_module
class Functions:
    I.module_attrs({"a": 1})
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm", 1)]})
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), y: R.Tensor((2,), "float32", "llvm:0:global"), s: R.Shape(["a"]), q: {float32}) -> R.Tensor:
        R.func_attr({"relax.force_pure": True, "l": [1,2], "f": 1.5})
        @R.function
        def inner(a: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
            b = R.add(a, a)
            return b
        if c:
            z = R.add(x, x)
            w = R.add(z, z)
        else:
            w = R.multiply(x, x)
        u = inner(y)
        v: R.Object = R.call_packed("foo", x, R.str("a"), R.prim_value(T.float32(1)), {arguments}=R.Object)
        R.print(x, format="x {}")
        R.call_packed("vm.foo", x, {arguments}=R.Tuple())
        t = R.tuple(x, x)
        t1 = R.tuple(x)
        h = R.call_tir(Functions.k, (y,), {result}=R.Tensor((2,), "float32"))
        h2 = R.call_tir_inplace(Functions.k2, (y,), inplace_indices=[0], {result}=R.Tensor((2,), "float32"))
        return w
    @T.prim_func(s_tir=True)
    def k(a: T.Buffer((2,), "float32"), b: T.Buffer((2,), "float32")):
        for i in range(2):
            with T.sblock("x"):
                vi = T.axis.spatial(2, i)
                b[vi] = a[vi]
    @T.prim_func(s_tir=True)
    def k2(a: T.Buffer((2,), "float32")):
        a[0] = 1.0
    @T.prim_func(s_tir=True)
    def k3(pa: T.handle, m: T.int32):
        n = T.int32()
        a = T.match_buffer(pa, (n,m))
        for i in T.thread_binding(4, "threadIdx.x"):
            with T.sblock():
                vi = T.axis.spatial(2, i)
                T.where(i < n)
                a[vi, 0] = T.float16(1)
"""
"""A module as a script; `{arguments}`, `{result}` and `{float32}` stand for what a version calls them."""


def operators(kind: Names) -> tvm.IRModule:
    """Operators, kernels, functions of the runtime, and a large constant."""
    n = tirx.Var("n", "int64")
    TT = kind.Tensor
    x = relax.Var("x", TT([n, 4], "float32"))
    y = relax.Var("y", TT(dtype="float32", ndim=2))
    s = relax.Var("s", kind.Shape([n, 4]))
    t = relax.Var("t", kind.Tuple([TT([n], "float32"), kind.Any()]))
    p = relax.Var("p", kind.Prim("int64"))
    f = relax.Var("f", kind.Func([TT([n], "float32")], TT([n], "float32")))
    c = relax.Var("c", TT([], "bool"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y, s, t, p, f, c], attrs={"num_input": 3}):
        with bb.dataflow():
            w = bb.emit(relax.op.matmul(x, relax.const(np.arange(36).reshape(4, 9).astype("float32"))))
            v = bb.emit(relax.op.add(w, relax.const(1.0)))
            m = bb.match_cast(y, TT([n, tirx.Var("k","int64")], "float32"))
            z = bb.emit(relax.op.reshape(v, (n*9,)))
            q = bb.emit(relax.op.permute_dims(v))
            q = bb.emit(relax.op.nn.softmax(q, axis=0))
            sp = bb.emit(relax.op.split(v, 3, axis=1))
            s0 = bb.emit(sp[0])
            sm = bb.emit(relax.op.sum(v, axis=[0], keepdims=True))
            ss = bb.emit(relax.op.strided_slice(v, [0], [0], [1]))
            cc = bb.emit(relax.op.concat([v, v], axis=0))
            tt = bb.emit(relax.Tuple([v, relax.Tuple([v])]))
            te = bb.emit_te(topi.nn.softmax, v)
            as_ = bb.emit(relax.op.astype(v, "float16"))
            fl = bb.emit(relax.op.full((n, 4), relax.const(1.0), "float32"))
            sh = bb.emit(relax.op.shape_of(v))
            g = bb.emit(relax.op.call_pure_packed("hello", v, "a", 3, relax.ShapeExpr([1, n]), **{kind.arguments: TT([n], "float32")}))
            d = bb.emit(relax.op.call_dps_packed("dps", v, TT([n], "float32")))
            h = bb.emit(relax.Call(f, [d]))
            o = bb.emit_output(v)
        bb.emit_func_output(relax.Tuple([o, o]))
    return bb.get()


def functions(kind: Names) -> tvm.IRModule:
    """Branches, functions inside functions, calls of kernels, and kernels."""
    text = FUNCTIONS
    for name in ("arguments", "result", "float32"):
        text = text.replace(f"{{{name}}}", getattr(kind, name))
    return tvm.script.from_source(text)


if __name__ == "__main__":
    for make in (operators, functions):
        text = make(NAMES).script(show_meta=True)
        (HERE / f"tvm_{NAMES.version}_{make.__name__}.txt").write_text(text + "\n")
