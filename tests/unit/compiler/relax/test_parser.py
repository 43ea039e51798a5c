"""Graph functions read from text, and printed again."""

import sys
from typing import Any

import numpy as np
import pytest

from compiler.errors import IRError
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.relax import op
from compiler.relax.analysis import assert_well_formed
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import Call, Constant, Function, TensorStructInfo, Var, const
from compiler.script.entry import from_source
from compiler.script.saved import load_json, save_json
from compiler.script.source import ScriptError
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

MODULE = """\
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                T.reads(A[v_i])
                T.writes(B[v_i])
                B[v_i] = A[v_i] * 2.0

    @R.function(private=True)
    def helper(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
        n = T.int64()
        gv: R.Tensor((n,), dtype="float32") = R.add(x, R.const(1.0, "float32"))
        return gv

    @R.function(pure=False)
    def main(x: R.Tensor((4,), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tensor(dtype="float32", ndim=1):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv: R.Tensor((4,), dtype="float32") = \
R.call_tir(Module.double, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))
            gv: R.Tensor((4,), dtype="float32") = Module.helper(lv)
            R.output(gv)
        _: R.Tuple() = R.print(gv, format="{}")
        m = T.int64()
        cast: R.Tensor((m,), dtype="float32") = R.match_cast(gv, R.Tensor((m,), dtype="float32"))
        @R.function
        def local(y: R.Tensor(("m",), dtype="float32")) -> R.Tensor(("m",), dtype="float32"):
            gv1: R.Tensor((m,), dtype="float32") = R.multiply(y, y)
            return gv1
        if c:
            gv2: R.Tensor((m,), dtype="float32") = local(cast)
            out: R.Tensor((m,), dtype="float32") = gv2
        else:
            out: R.Tensor((m,), dtype="float32") = cast
        return out"""


def test_a_module_is_read_printed_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    module = from_source(MODULE)
    assert isinstance(module, IRModule)
    assert_well_formed(module)
    assert module.script() == MODULE
    x = np.arange(4, dtype="float32")
    assert run(module, x, np.array(True)).tolist() == [1, 9, 25, 49]
    assert run(module, x, np.array(False)).tolist() == [1, 3, 5, 7]
    assert capsys.readouterr().out.startswith("[1. 3. 5. 7.]\n")


@R.function
def plain(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4, "m"))):  # type: ignore[no-untyped-def,valid-type]
    with R.dataflow():
        h = R.nn.relu(R.matmul(x, w) + 1.0)
        out = h * 2.0
        R.output(out)
    return (out, R.permute_dims(out))


@I.ir_module
class InClass:
    @T.prim_func(private=True)
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + 1.0

    @R.function
    def main(x: R.Tensor((4,), "float32")):  # type: ignore[no-untyped-def,valid-type]
        cls = InClass
        return R.call_tir(cls.kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))


def test_decorators() -> None:
    assert isinstance(plain, Function)
    assert_well_formed(plain)
    x, w = np.random.rand(2, 4).astype("float32"), np.random.rand(4, 3).astype("float32")
    out, transposed = run(plain, x, w)
    np.testing.assert_allclose(out, np.maximum(x @ w + 1, 0) * 2, rtol=1e-5)
    assert transposed.shape == (3, 2)
    assert run(InClass, np.ones(4, "float32")).tolist() == [2] * 4  # type: ignore[arg-type]
    assert R.Tensor((2,)) == TensorStructInfo((2,))  # type: ignore[arg-type]
    assert R.nn.softmax is op.nn.softmax
    with pytest.raises(IRError, match=r"R\.output means something only"):
        R.output(3)
    for name in ("nobody", "nn.nobody"):
        with pytest.raises(AttributeError, match="nobody"):
            eval(f"R.{name}")


def test_what_the_builder_makes_reads_back() -> None:
    x = Var("x", TensorStructInfo((2, 3)))  # type: ignore[arg-type]
    large = np.random.rand(2, 3, 10).astype("float32").reshape(6, 10)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(op.add(x, const(np.ones((2, 3), "float32"))))
            b = bb.emit(op.call_pure_packed("f", a, sinfo_args=[TensorStructInfo((2,)), TensorStructInfo((3,))]))  # type: ignore[arg-type]
            c = bb.emit(op.matmul(op.reshape(a, (1, 6)), const(large)))
            d = bb.emit_output([b[0], c, op.astype(c, "float16")])
        bb.emit_func_output(d)
    module = bb.get()
    assert 'metadata["relax.expr.Constant"][0]' in module.script()
    assert_structural_equal(from_source(module.script(show_meta=True)), module)
    back = load_json(save_json(module))
    assert_structural_equal(back, module)
    with pytest.raises(ScriptError, match="constants of this text were left out"):
        from_source(module.script())
    with pytest.raises(IRError, match="cannot be read"):
        load_json(save_json(module).replace('"shape": [6, 10]', '"shape": [6, 11]'))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return R.ad(x, x)", "TVMScript has no expression 'R.ad'"),
        ("return y", "there is no name 'y'"),
        ("return R.add(x, R.const([1.0], 'int8'))", "the element types differ: x1 float32 and x2 int8"),
        ("return R.nn.softmax(x, axs=1)", "has no parameter 'axs'"),
        ("y: R.Tensor((3,), 'float32') = R.add(x, x)\n    return y", "the value of y is"),
        ("y: 3 = x\n    return y", "3 is no StructInfo"),
        ("for i in range(3):\n        pass\n    return x", "this has no place in a graph"),
        ("with R.dataflo():\n        y = x\n    return x", "a graph has `with R.dataflow():` only"),
        ("if x:\n        y = x\n    else:\n        z = x\n    return x", "giving the same variable its value"),
        ("if x:\n        y = x\n    else:\n        y = x\n    return x", "must be a bool without dimensions"),
        ("y = x", "the function main returns nothing"),
        ("with R.dataflow():\n        y = x\n        R.output(z)\n    return x", "z is not bound in this"),
        ("with R.dataflow():\n        y = x\n    return y", "y is seen only in its dataflow block"),
        ("return metadata['relax.expr.Constant'][0]", "the constants of this text were left out"),
        ("return R.call_packed()", "missing 1 required positional argument"),
        ("return x\n    y = x", "nothing comes after return"),
        ("return x[0]", "no tuple"),
        ("k = T.int32()\n    return x", "the dimension k is int32"),
        ("return R.match_cast(x)", "has no expression"),
        ("y = R.match_cast(x)\n    return y", "takes a value and StructInfo"),
        ("def f(y):\n        return y\n    return x", "is decorated with @R.function"),
        ("return x.numpy()", "has no place in a graph"),
        ("return x ** x @ x", "the operator of x ** x @ x has no place"),
        ("R.func_attr(3)\n    return x", "attributes are a dict"),
    ],
)
def test_errors_point_at_their_place(body: str, message: str) -> None:
    text = f'@R.function\ndef main(x: R.Tensor((2,), "float32")):\n    {body}\n'
    with pytest.raises(ScriptError) as error:
        from_source(text)
    assert message in str(error.value)
    assert "^" in str(error.value)
    assert error.value.detail["line"] >= 2


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("def main(x):", "parameter 'x' has no type"),
        ('def main(x: R.Tensor(("n +",))):', "is no dimension"),
        ("def main(*x):", "takes plain parameters only"),
        ('def main(x: R.Tensor((2,), "float32")) -> R.Tensor((3,), "float32"):', "the function returns"),
    ],
)
def test_errors_of_signatures(head: str, message: str) -> None:
    with pytest.raises(ScriptError) as error:
        from_source(f"@R.function\n{head}\n    return x\n")
    assert message in str(error.value)
    with pytest.raises(ScriptError, match=r"R\.function takes"):
        from_source('@R.function(fast=True)\ndef main(x: R.Tensor((2,), "float32")):\n    return x\n')


def test_declarations_and_unknown_shapes() -> None:
    text = '@R.function\ndef main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):\n    ...'
    assert from_source(text).script() == text  # type: ignore[union-attr]
    head = "def main(x: R.Tensor, s: R.Shape, o: R.Object, f: R.Callable):"
    func: Any = from_source(f"@R.function\n{head}\n    return (x, s, o)")
    assert [str(p.struct_info) for p in func.params[:3]] == ['R.Tensor(dtype="")', "R.Shape()", "R.Object"]


def test_long_texts_take_work_by_size_only() -> None:
    def work(count: int) -> int:
        """The calls of Python functions that reading takes."""
        lines = "\n".join(f"    v{i + 1} = R.add(v{i}, v{i})" for i in range(count))
        text = f'@R.function\ndef main(v0: R.Tensor((2,), "float32")):\n{lines}\n    return v{count}\n'
        calls = 0

        def note(frame: object, event: str, arg: object) -> None:
            nonlocal calls
            calls += event == "call"

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            from_source(text)
        finally:
            sys.setprofile(before)
        return calls

    work(10)
    assert work(400) < 4.5 * work(100)


class Config:
    width = 3


def test_a_decorated_function_uses_modules_and_objects_of_the_program() -> None:
    @R.function
    def main(x: R.Tensor((Config.width,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.add(x, R.const(np.arange(Config.width, dtype="float32")))
        return y

    call = main.body.blocks[0].bindings[0].value
    assert isinstance(call, Call)
    constant = call.args[1]
    assert isinstance(constant, Constant)
    assert constant.data.numpy().tolist() == [0, 1, 2]
    with pytest.raises(ScriptError, match="has no attribute 'height'"):

        @R.function
        def wrong(x: R.Tensor((3,), "float32")):
            return R.add(x, R.const(Config.height, "float32"))
