"""Weights, inputs and results of functions, before and after."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, IRError
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import arrays, as_module, becomes, computes, same_values, stays
from tunefarm import relax
from tunefarm.relax import TensorStructInfo, transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T


@R.function
def dense(x: R.Tensor(("n", 16), "float32"), w: R.Tensor((8, 16), "float32"), b: R.Tensor((8,), "float32")):
    n = T.int64()
    R.func_attr({"num_input": 1})
    with R.dataflow():
        lv = R.permute_dims(w)
        lv1 = R.matmul(x, lv)
        gv = R.add(lv1, b)
        R.output(gv)
    return gv


SHAPES: Any = ((3, 16), (8, 16), (8,))


def test_dimensions_become_numbers() -> None:
    @R.function
    def after(x: R.Tensor((5, 16), "float32"), w: R.Tensor((8, 16), "float32"), b: R.Tensor((8,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.permute_dims(w)
            lv1 = R.matmul(x, lv)
            gv = R.add(lv1, b)
            R.output(gv)
        return gv

    becomes(transform.BindSymbolicVars({"n": 5}), dense, after)
    var = dense.params[0].struct_info.dims[0]
    becomes(transform.BindSymbolicVars({var: 5}, "main"), dense, after)
    with pytest.raises(IRError, match="no function has the symbolic variable 'm'"):
        transform.BindSymbolicVars({"m": 5})(as_module(dense))
    with pytest.raises(ArgumentError, match="'other' is no graph function"):
        transform.BindSymbolicVars({"n": 5}, "other")(as_module(dense))


def test_weights_become_one_tuple() -> None:
    @R.function
    def after(
        x: R.Tensor(("n", 16), "float32"),
        model_params: R.Tuple(R.Tensor((8, 16), "float32"), R.Tensor((8,), "float32")),
    ):
        n = T.int64()
        R.func_attr({"num_input": 1})
        w = model_params[0]
        b = model_params[1]
        with R.dataflow():
            lv = R.permute_dims(w)
            lv1 = R.matmul(x, lv)
            gv = R.add(lv1, b)
            R.output(gv)
        return gv

    made = becomes(transform.BundleModelParams(), dense, after)
    x, w, b = arrays(SHAPES)
    same_values(run(made, x, (w, b)), run(as_module(dense), x, w, b))
    assert transform.BundleModelParams("weights")(as_module(dense))["main"].params[1].name_hint == "weights"
    stays(transform.BundleModelParams(), as_module(dense.without_attr("num_input")))
    with pytest.raises(IRError, match="num_input is 7, and the function has 3 parameters"):
        transform.BundleModelParams()(as_module(dense.with_attr("num_input", 7)))


@I.ir_module
class Lifted:
    @R.function
    def main(x: R.Tensor(("n", 16), "float32"), b: R.Tensor((8,), "float32"), lv: R.Tensor((16, 8), "float32")):
        n = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv1 = R.matmul(x, lv)
            gv = R.add(lv1, b)
            R.output(gv)
        return gv

    @R.function
    def main_transform_params(params: R.Tuple(R.Tensor((8, 16), "float32"), R.Tensor((8,), "float32"))):
        R.func_attr({"num_input": 0})
        with R.dataflow():
            w = params[0]
            b = params[1]
            lv = R.permute_dims(w)
            gv = (b, lv)
            R.output(gv)
        return gv


def test_what_follows_from_weights_alone_is_computed_before() -> None:
    made = becomes(transform.LiftTransformParams(), dense, Lifted)
    x, w, b = arrays(SHAPES)
    transformed = run(made, (w, b), func="main_transform_params")
    same_values(run(made, x, *transformed), run(as_module(dense), x, w, b))
    machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
    on_machine = machine["main"](x, *machine["main_transform_params"]((w, b)))
    same_values(on_machine.numpy(), run(as_module(dense), x, w, b))


def test_dimensions_of_lifted_weights_are_given() -> None:
    @R.function
    def graph(x: R.Tensor((4,), "float32"), w: R.Tensor(("k", 4), "float32")):
        k = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.sum(w, axis=0)
            lv1 = R.add(x, lv)
            gv = R.broadcast_to(lv1, R.shape([k, 4]))
            R.output(gv)
        return gv

    made = transform.LiftTransformParams()(as_module(graph))
    x, w = arrays(((4,), (3, 4)))
    same_values(run(made, x, *run(made, (w,), func="main_transform_params")), run(as_module(graph), x, w))


def test_functions_may_share_what_they_compute_alike() -> None:
    @I.ir_module
    class Two:
        @R.function
        def first(x: R.Tensor((3, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            a = R.permute_dims(w)
            c = R.exp(v)
            y = R.matmul(x, a)
            z = R.matmul(y, c)
            return z

        @R.function
        def second(x: R.Tensor((5, 4), "float32"), w: R.Tensor((4, 4), "float32"), v: R.Tensor((4, 4), "float32")):
            R.func_attr({"num_input": 1})
            b = R.permute_dims(w)
            c = R.tanh(v)
            y = R.matmul(x, b)
            z = R.matmul(y, c)
            return z

    w, v = arrays(((4, 4), (4, 4)))
    for choice in (True, ["first", "second"], []):
        made = transform.LiftTransformParams(choice)(Two)
        assert relax.analysis.well_formed(made)
        shared = run(made, (w, v), func="transform_params")
        assert len(shared) == 2  # v as it is, and w transposed
        for name, rows in (("first", 3), ("second", 5)):
            (x,) = arrays(((rows, 4),))
            same_values(run(made, x, *shared, func=name), run(Two, x, w, v, func=name))
    with pytest.raises(ArgumentError, match="'third' is no graph function"):
        transform.LiftTransformParams(["third"])(Two)


def test_weights_are_asked_for_before_their_first_use() -> None:
    made = transform.LazyGetInput()(as_module(dense))
    x, w, b = arrays(SHAPES)
    asked: list[Any] = []

    def get(index: int, name: str) -> Any:
        asked.append((index, name))
        return (w, b)[index]

    wanted = run(as_module(dense), x, w, b)
    same_values(run(made, x, get), wanted)
    assert asked == [(0, "w"), (1, "b")]
    assert [param.name_hint for param in made["main"].params] == ["x", "fget_param"]

    @R.function
    def after(x: R.Tensor(("n", 16), "float32"), fget_param: R.Callable([R.Prim("int64"), R.Object], R.Object)):
        n = T.int64()
        R.func_attr({"num_input": 1})
        with R.dataflow():
            w_untyped = fget_param(R.prim_value(0), R.str("w"))
            w = R.match_cast(w_untyped, R.Tensor((8, 16), "float32"))
            lv = R.permute_dims(w)
            lv1 = R.matmul(x, lv)
            b_untyped = fget_param(R.prim_value(1), R.str("b"))
            b = R.match_cast(b_untyped, R.Tensor((8,), "float32"))
            gv = R.add(lv1, b)
            R.output(gv)
        return gv

    becomes(transform.LazyGetInput(), dense, after)
    stays(transform.LazyGetInput(), dense.without_attr("num_input"))
    machine = relax.VirtualMachine(relax.build(made, "llvm"), tvm.cpu())
    on_device = [tvm.nd.array(item) for item in (w, b)]
    same_values(machine["main"](x, lambda index, name: on_device[index]).numpy(), wanted)


def test_results_are_given_away_when_they_are_there() -> None:
    @R.function
    def before(x: R.Tensor((4,), "float32")):
        a = R.exp(x)
        b = R.tanh(a)
        return (b, a)

    @R.function(pure=False)
    def after(x: R.Tensor((4,), "float32"), fset_output: R.Callable([R.Prim("int64"), R.Object], R.Tuple(), False)):
        a = R.exp(x)
        fset_output(R.prim_value(1), a)
        b = R.tanh(a)
        fset_output(R.prim_value(0), b)
        return R.tuple()

    made = becomes(transform.LazySetOutput(), before, after)
    (x,) = arrays(((4,),))
    given: dict[int, Any] = {}
    order: list[int] = []

    def keep(index: int, value: Any) -> tuple[()]:
        given[index] = np.array(value)
        order.append(index)
        return ()

    assert run(made, x, keep) == ()
    assert order == [1, 0]
    same_values((given[0], given[1]), run(as_module(before), x))
    one = transform.LazySetOutput()(as_module(dense))
    assert [param.name_hint for param in one["main"].params] == ["x", "fset_output", "w", "b"]
    args = arrays(SHAPES)
    run(one, args[0], keep, *args[1:])
    same_values(given[0], run(as_module(dense), *args))


def test_what_is_known_of_parameters_may_change() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = Before.inner(x)
            z = R.add(y, y)
            return z

    @I.ir_module
    class After:
        @R.function(private=True)
        def inner(x: R.Tensor((4,), "float16")) -> R.Tensor((4,), "float16"):
            y = R.exp(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float16")) -> R.Tensor((4,), "float16"):
            y = After.inner(x)
            z = R.add(y, y)
            return z

    half = TensorStructInfo((4,), "float16")
    becomes(transform.UpdateParamStructInfo(lambda param: half), Before, After)
    stays(transform.UpdateParamStructInfo(lambda param: None), Before)
    wide = TensorStructInfo((3, 17), "float32")
    widen = transform.UpdateParamStructInfo(lambda param: wide if param.name_hint == "x" else None)
    with pytest.raises(IRError, match="dimensions that are summed over differ"):
        widen(as_module(dense))


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_weights(seed: int) -> None:
    from tests.kit.compiler.random_graphs import random_graph

    graph = random_graph(seed, 10)
    main = graph.module["main"].with_attr("num_input", 1)
    module = graph.module.with_functions({**graph.module.functions, graph.module.get_global_var("main"): main})
    x, *weights = graph.args
    wanted = run(module, *graph.args)
    lifted = transform.LiftTransformParams()(module)
    assert relax.analysis.well_formed(lifted)
    outputs = run(lifted, tuple(weights), func="main_transform_params")
    same_values(run(lifted, x, *outputs), wanted)
    bundled = transform.BundleModelParams()(module)
    assert relax.analysis.well_formed(bundled)
    same_values(run(bundled, x, tuple(weights)), wanted)
    lazy = transform.LazyGetInput()(module)
    assert relax.analysis.well_formed(lazy)
    same_values(run(lazy, x, lambda index, name: weights[index]), wanted)
    computes(transform.BindSymbolicVars({"n": 3}) if seed % 2 else transform.Normalize(), module, *graph.args)
