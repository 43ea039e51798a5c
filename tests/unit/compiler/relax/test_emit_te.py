"""`R.emit_te` in scripts: kernels of te functions join the module."""

import numpy as np
import pytest

from compiler import topi
from compiler.ir.module import IRModule
from compiler.relax.interp import run
from compiler.script.entry import from_source
from compiler.script.source import ScriptError
from compiler.te.operation import compute
from compiler.te.tensor import Tensor
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tirx as T


def twice(x: Tensor, factor: int = 2) -> Tensor:
    return compute(x.shape, lambda *i: x(*i) * float(factor), name="twice")


@I.ir_module
class Model:
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def]
        for i in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2.0)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")):  # type: ignore[no-untyped-def]
        with R.dataflow():
            total = R.emit_te(topi.add, R.nn.relu(x), y)
            double = R.emit_te(twice, total)
            fourfold = R.emit_te(twice, double, factor=4, primfunc_name_hint="fourfold")
            again = R.emit_te(twice, fourfold)
            R.output(again)
        return again


def test_kernels_join_the_module_once() -> None:
    assert isinstance(Model, IRModule)
    assert [name.name_hint for name in Model.functions] == ["twice", "main", "add", "twice1", "fourfold"]
    x, y = np.array([[-1, 2, 3, 4]], "float32"), np.ones(4, "float32")
    np.testing.assert_array_equal(run(Model, x, y), (np.maximum(x, 0) + y) * 16)  # type: ignore[arg-type]


MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.emit_te({})
        return y
"""


def test_a_text_finds_only_what_it_is_given() -> None:
    module = from_source(MODULE.format("twice, x"), {"twice": twice})
    assert isinstance(module, IRModule)
    assert run(module, np.ones(4, "float32")).tolist() == [2, 2, 2, 2]  # type: ignore[arg-type]
    for func in ("twice", "print", "T.exp", "R.add", "T.__class__", "x", "x.astype", "os._exit", "(lambda a: a)"):
        with pytest.raises(ScriptError, match=r"is no function of the program around"):
            from_source(MODULE.format(f"{func}, x"), {"os": __import__("os")})


def test_a_function_alone_has_no_place_for_a_kernel() -> None:
    with pytest.raises(ScriptError, match=r"needs a module for its kernel"):

        @R.function
        def alone(x: R.Tensor((4,), "float32")):  # type: ignore[no-untyped-def]
            return R.emit_te(topi.nn.relu, x)

    with pytest.raises(ScriptError, match="takes a te function"):
        from_source(MODULE.format(""))
