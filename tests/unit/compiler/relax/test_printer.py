"""Graph functions as text."""

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.ir.text import keeping, script
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.tir import nodes as n
from tests.kit.compiler.struct_info import tensor

K = n.Var("k", "int64")


def test_a_module() -> None:
    x, c, m = r.Var("x", tensor(K, 4)), r.Var("c", r.TensorStructInfo((), "bool")), n.Var("m", "int64")  # type: ignore[arg-type]
    bb = BlockBuilder()
    with bb.function("main", [x, c], attrs={"num_input": 1}, pure=False):
        with bb.dataflow():
            a = bb.emit(op.add(x, 1.0))
            b = bb.emit_output(op.reshape(a, (-1,)))
        cast = bb.match_cast(b, tensor(m))
        twice = bb.emit_te(lambda t: t, cast)
        bb.emit(r.Call(r.extern("f"), (r.PrimValue(3), twice), sinfo_args=(tensor(2),)))  # type: ignore[arg-type]
        inner = r.Var("inner", tensor(m))
        bb.emit(bb.normalize(r.Function([inner], inner)), "local")
        chosen = bb.emit(r.If(c, op.add(twice, twice), twice), "chosen")  # type: ignore[arg-type]
        bb.emit_func_output([chosen, twice])
    text = bb.get().script()
    assert text.startswith("@I.ir_module\nclass Module:\n    @T.prim_func(private=True)\n    def te_func(")
    wanted = """
    @R.function(pure=False)
    def main(x: R.Tensor(("k", 4), dtype="float32"), c: R.Tensor((), dtype="bool")) -> \
R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor(dtype="float32", ndim=1)):
        k = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv: R.Tensor((k, 4), dtype="float32") = R.add(x, R.const(1.0, "float32"))
            gv: R.Tensor((k * 4,), dtype="float32") = R.reshape(lv, R.shape([k * 4]))
            R.output(gv)
        m = T.int64()
        gv1: R.Tensor((m,), dtype="float32") = R.match_cast(gv, R.Tensor((m,), dtype="float32"))
        gv2: R.Tensor((m,), dtype="float32") = \
R.call_tir(Module.te_func, (gv1,), out_sinfo=R.Tensor((m,), dtype="float32"))
        gv3: R.Tensor((2,), dtype="float32") = R.call_packed("f", R.prim_value(3), gv2, \
sinfo_args=[R.Tensor((2,), dtype="float32")])
        @R.function
        def local(inner: R.Tensor(("m",), dtype="float32")) -> R.Tensor(("m",), dtype="float32"):
            return inner
        if c:
            gv4: R.Tensor((m,), dtype="float32") = R.add(gv2, gv2)
            chosen: R.Tensor((m,), dtype="float32") = gv4
        else:
            chosen: R.Tensor((m,), dtype="float32") = gv2
        return (chosen, gv2)"""
    assert text.partition("\n\n")[2] == wanted.lstrip("\n")


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (tensor(K, K * 2 + 1), 'R.Tensor((k, k * 2 + 1), dtype="float32")'),
        (r.TensorStructInfo(None, "", None, 2), 'R.Tensor(dtype="", ndim=2)'),
        (r.TensorStructInfo((2,), "int8", "cuda:1"), 'R.Tensor((2,), dtype="int8", vdevice="cuda:1:global")'),  # type: ignore[arg-type]
        (r.ShapeStructInfo(), "R.Shape"),
        (r.ShapeStructInfo(ndim=2), "R.Shape(ndim=2)"),
        (r.ShapeStructInfo((K, 3)), "R.Shape([k, 3])"),
        (r.PrimStructInfo("float16"), 'R.Prim("float16")'),
        (r.PrimStructInfo(value=K), "R.Prim(value=k)"),
        (r.TupleStructInfo(()), "R.Tuple()"),
        (r.ObjectStructInfo(), "R.Object"),
        (r.FuncStructInfo([tensor(2)], tensor(2)),
         'R.Callable((R.Tensor((2,), dtype="float32"),), R.Tensor((2,), dtype="float32"), True)'),
        (r.FuncStructInfo.opaque_func(), "R.Callable(purity=False)"),
        (r.FuncStructInfo.opaque_func(ret=tensor(2), purity=True),
         'R.Callable(ret=R.Tensor((2,), dtype="float32"), purity=True)'),
    ],
)  # fmt: skip
def test_struct_info(info: r.StructInfo, text: str) -> None:
    assert script(info) == text


def test_expressions_by_themselves() -> None:
    x = r.Var("x", tensor(2))
    packed = script(op.call_pure_packed("f", x, sinfo_args=[tensor(2)]))
    assert packed.startswith('R.call_pure_packed("f", x, sinfo_args=[')
    assert script(op.print(x, format="{}")) == 'R.print(x, format="{}")'
    assert script(op.nn.softmax(x)) == "R.nn.softmax(x, axis=-1)"
    assert script(op.permute_dims(x, [0])) == "R.permute_dims(x, axes=[0])"
    assert script(r.Tuple(())) == "R.tuple()"
    assert script(r.Tuple((x,))) == "(x,)"
    assert script(r.const(float("nan"))) == 'R.const(float("nan"), "float32")'
    with pytest.raises(IRError, match="that no binding names"):
        script(op.add(r.If(r.Var("c", r.TensorStructInfo((), "bool")), x, x), x))  # type: ignore[arg-type]


def test_large_constants_are_kept_beside_the_text() -> None:
    small, large = r.const(np.arange(3, dtype="int32")), r.const(np.zeros(100, "float32"))
    assert script(small) == 'R.const([0, 1, 2], "int32")'
    assert script(large) == 'metadata["relax.expr.Constant"][...]'
    with keeping() as kept:
        text = script(large)
    assert list(kept.values()) == [large.data]
    assert "kept" in text


def test_names_are_unique_and_no_prefix() -> None:
    a, b = r.Var("x", tensor(2)), r.Var("x", tensor(2))
    assert script(r.Tuple((a, b, a))) == "(x, x_1, x)"
    assert script(r.Var("R", tensor(2))) != "R"


def test_functions_print_themselves() -> None:
    x = r.Var("x", tensor(2))
    func = r.Function([x], x)
    head = 'def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):'
    assert func.script() == f"@R.function(private=True)\n{head}\n    return x"
    assert repr(func) == func.script()
    declared = r.Function.create_empty([x], tensor(2))
    assert declared.script().endswith("    ...")
