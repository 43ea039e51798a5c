"""Random graphs are read from their texts as they were."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.vdevice import VDevice
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.block_builder import BlockBuilder
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir import nodes as n
from tests.kit.compiler.pass_checks import same_after_reading
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

DTYPES = ("float32", "float16", "int64", "bool", "uint8")


class Graphs:
    """Draws a graph: what is built so far is in `values`, all of them tensors (n, 4) of float32."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.n, self.m = n.Var("n", "int64"), n.Var("m", "int64")
        self.info = r.TensorStructInfo((self.n, 4), "float32")  # type: ignore[arg-type]
        self.bb = BlockBuilder()
        self.values: list[r.RelaxExpr] = []

    def value(self) -> r.RelaxExpr:
        return self.data.draw(st.sampled_from(self.values))

    def small(self) -> Any:
        return self.data.draw(st.integers(0, 3))

    def expression(self) -> r.RelaxExpr:
        a, b = self.value(), self.value()
        number = float(np.float32(self.data.draw(st.floats(width=32))))
        made = [
            lambda: op.add(a, b),
            lambda: op.multiply(a, r.const(number, "float32")),
            lambda: op.nn.softmax(a, axis=self.small() - 2 if self.small() < 2 else -1),
            lambda: op.astype(op.astype(a, self.data.draw(st.sampled_from(DTYPES))), "float32"),
            lambda: op.matmul(a, r.const(np.arange(16, dtype="float32").reshape(4, 4) / 3)),
            lambda: op.matmul(a, r.const(np.arange(4 * 4, dtype="float32").reshape(4, 4))),
            lambda: op.permute_dims(op.permute_dims(a), [1, 0]),
            lambda: op.reshape(op.reshape(a, (self.n * 4,)), (self.n, 4)),
            lambda: op.call_pure_packed("f", a, r.PrimValue(self.small()), r.StringImm('a "b"\n'),
                                        r.DataTypeImm("int8"),
                                        r.ShapeExpr((1, self.n)), sinfo_args=self.info),  # type: ignore[arg-type]
            lambda: op.call_dps_packed("g", (a, b), self.info),
            lambda: op.call_tir(self.kernel, (a,), self.info),
            lambda: r.Call(self.helper, (a,)),
            lambda: op.where(op.less(a, b), a, op.maximum(a, b)),
            lambda: op.split(op.concat([a, b], axis=1), 2, axis=1)[0],
        ]  # fmt: skip
        return self.data.draw(st.sampled_from(made))()

    def step(self, dataflow: bool) -> None:
        bb = self.bb
        match self.data.draw(st.integers(0, 7)):
            case 0:
                held = bb.emit(r.Tuple((self.value(), r.Tuple((self.value(), r.const(3))), r.PrimValue(2))))
                self.values.append(bb.emit(held[0]))
            case 1:
                anything = bb.emit(op.call_pure_packed("h", self.value(), sinfo_args=r.ObjectStructInfo()))
                self.values.append(bb.match_cast(anything, self.info))
            case 2 if not dataflow:
                yes, no = self.expression(), self.expression()
                self.values.append(bb.emit(r.If(self.condition, yes, no)))
            case 3 if not dataflow:
                bb.emit(op.print(self.value(), format="{} of 'x'"))
                bb.emit(r.Call(r.ExternFunc("p"), (self.value(),), sinfo_args=(r.TupleStructInfo(()),)))
            case _:
                self.values.append(bb.emit(self.expression()))

    def module(self) -> IRModule:
        bb = self.bb
        self.kernel = bb.add_func(_copy(), "copy")
        y = r.Var("y", r.TensorStructInfo((self.m, 4), "float32"))  # type: ignore[arg-type]
        with bb.function("helper", [y], private=True):
            bb.emit_func_output(bb.emit(op.add(y, y)))
        self.helper = next(name for name in bb.get() if name.name_hint == "helper")
        assert isinstance(self.helper, GlobalVar)
        self.condition = r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]
        x = r.Var("x", self.info)
        self.values.append(x)
        with bb.function("main", [x, self.condition], {"k": [1, "a", 2.5, None, True]}, pure=False):
            for _ in range(self.data.draw(st.integers(1, 3))):
                if self.data.draw(st.booleans()):
                    before = len(self.values)
                    with bb.dataflow():
                        for _ in range(self.data.draw(st.integers(1, 4))):
                            self.step(dataflow=True)
                        seen = bb.emit_output(self.expression())
                    self.values[before:] = [seen]
                else:
                    self.step(dataflow=False)
            bb.emit_func_output((self.value(), (self.value(),)))
        return bb.get()


def _copy() -> n.PrimFunc:
    func = from_source("""
@T.prim_func(private=True)
def copy(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, T.int64(4)))
    B = T.match_buffer(b, (n, T.int64(4)))
    for i, j in T.grid(n, T.int64(4)):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w]
""")
    assert isinstance(func, n.PrimFunc)
    return func


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_graphs(data: st.DataObject) -> None:
    same_after_reading(Graphs(data).module())


def infos(size: n.Var) -> st.SearchStrategy[r.StructInfo]:
    dims = st.lists(st.sampled_from([size, 1, 3, size * 2, size + 1]), max_size=3).map(tuple)
    devices = st.sampled_from([None, VDevice(Target("llvm"), 1), VDevice(Target("llvm -mcpu=haswell"))])
    dtypes = st.sampled_from(("", *DTYPES))
    leaves: st.SearchStrategy[r.StructInfo] = st.one_of(
        st.builds(lambda d, t, v: r.TensorStructInfo(d, t, v), dims, dtypes, devices),  # type: ignore[arg-type]
        st.builds(lambda k, t, v: r.TensorStructInfo(None, t, v, k), st.integers(-1, 4), dtypes, devices),
        st.builds(lambda d: r.ShapeStructInfo(d), dims),  # type: ignore[arg-type]
        st.builds(lambda k: r.ShapeStructInfo(None, k), st.integers(-1, 4)),
        st.sampled_from(DTYPES).map(lambda t: r.PrimStructInfo(t)),
        st.just(r.ObjectStructInfo()),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: r.TupleStructInfo(tuple(items))),
            st.builds(r.FuncStructInfo, st.lists(inner, max_size=2), inner, st.booleans()),
            st.builds(lambda ret: r.FuncStructInfo.opaque_func(ret=ret), inner),
        ),
        max_leaves=4,
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_struct_info_of_parameters(data: st.DataObject) -> None:
    size = n.Var("n", "int64")
    first = r.Var("s", r.ShapeStructInfo((size,)))
    params = [first, *(r.Var("x", info) for info in data.draw(st.lists(infos(size), max_size=3)))]
    bb = BlockBuilder()
    with bb.function("main", params):
        bb.emit_func_output(bb.emit(r.Tuple(tuple(params))))
    same_after_reading(bb.get())


@I.ir_module
class Shared:
    I.module_attrs({"a": 1})
    I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("llvm -mcpu=haswell", 1)]})

    @T.prim_func(private=True, s_tir=True)
    def kernel(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):  # type: ignore[no-untyped-def,valid-type]
        n = T.int64()
        for i in range(n):
            with T.sblock("B"):
                v = T.axis.spatial(n, i)
                B[v] = A[v] + 1.0

    @R.function
    def main(  # type: ignore[no-untyped-def]
        x: R.Tensor(("n",), "float32", "llvm:1"), k: R.Prim(value="k"), o: R.Any, f: R.Callable  # type: ignore[valid-type]
    ):
        R.func_ret_struct_info(R.Tensor(("n",), "float32"))
        n = T.int64()
        y = R.emit(R.call_tir(Shared.kernel, (x,), out_sinfo=R.Tensor((n,), "float32")))
        return R.nn.relu(y)


def test_a_decorated_module() -> None:
    assert isinstance(Shared, IRModule)
    same_after_reading(Shared)
    main = Shared["main"]
    assert isinstance(main, r.Function)
    device = main.params[0].struct_info.vdevice  # type: ignore[attr-defined]
    assert device == VDevice(Target("llvm -mcpu=haswell"), 1)
    assert main.ret_struct_info == r.TensorStructInfo((main.params[0].struct_info.dims[0],))  # type: ignore[attr-defined,arg-type]
