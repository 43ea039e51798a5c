"""Dataflow blocks, before and after."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, IRError
from compiler.ir.module import IRModule
from compiler.ir.transform.passes import Sequential
from compiler.relax.analysis import problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import arrays, as_module, computes, same_values, stays
from tests.kit.compiler.random_graphs import random_graph
from tunefarm import relax
from tunefarm.relax import transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

INPLACE = transform.DataflowUseInplaceCalls()


@R.function(pure=False)
def plain(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
    a = R.exp(x)
    b = R.negative(a)
    R.print(b)
    d = R.tanh(b)
    if c:
        e = R.exp(d)
        f = R.exp(e)
        g = R.exp(f)
    else:
        g = R.negative(d)
    h = R.exp(g)
    i = R.add(h, b)
    return i


@R.function(pure=False)
def grouped(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")):
    with R.dataflow():
        a = R.exp(x)
        b = R.negative(a)
        R.output(b)
    R.print(b)
    d = R.tanh(b)
    if c:
        e = R.exp(d)
        f = R.exp(e)
        g = R.exp(f)
    else:
        g = R.negative(d)
    with R.dataflow():
        h = R.exp(g)
        i = R.add(h, b)
        R.output(i)
    return i


def test_bindings_without_side_effects_become_dataflow() -> None:
    convert = transform.ConvertToDataflow()
    flag = np.array(True)
    computes(convert, plain, flag, (4,), after=grouped)
    computes(convert, plain, np.array(False), (4,))
    assert transform.ConvertToDataflow(min_size=4)(as_module(plain))["main"].script().count("R.dataflow") == 0
    stays(convert, grouped)


def test_blocks_are_sorted() -> None:
    @R.function
    def before(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.exp(y)
            c = R.negative(a)
            d = R.negative(b)
            e = R.add(c, d)
            R.output(e)
        return e

    @R.function
    def deep(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            c = R.negative(a)
            b = R.exp(y)
            d = R.negative(b)
            e = R.add(c, d)
            R.output(e)
        return e

    computes(transform.TopologicalSort(), before, (4,), (4,), after=deep)
    computes(transform.TopologicalSort("breadth-first"), deep, (4,), (4,), after=before)
    computes(transform.TopologicalSort("depth-first", "from-outputs"), before, (4,), (4,))
    computes(transform.TopologicalSort("breadth-first", "from-outputs"), deep, (4,), (4,), after=before)
    with pytest.raises(ArgumentError, match="TopologicalSort: 'depth'"):
        transform.TopologicalSort("depth")(as_module(before))


def test_reshapes_that_change_nothing_go() -> None:
    @R.function
    def before(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.reshape(x, (8, 2))
            b = R.reshape(a, (2, 8))
            c = R.reshape(b, (2, 8))
            d = R.reshape(a, (4, 4))
            e = R.sum(c) + R.sum(d)
            R.output(e)
        return e

    @R.function
    def after(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            b = R.reshape(x, R.shape([2, 8]))
            s = R.sum(b)
            t = R.sum(x)
            e = R.add(s, t)
            R.output(e)
        return e

    passes = [transform.RemoveRedundantReshape(), transform.CanonicalizeBindings(), transform.DeadCodeElimination()]
    computes(Sequential(passes), before, (4, 4), after=after)


@I.ir_module
class Public:
    @R.function(private=True)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.exp(x)
        return y

    @R.function
    def entry(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = Public.main(x)
        return y


def test_public_functions_have_the_names_they_are_found_by() -> None:
    entry = Public["entry"].with_attr("global_symbol", "main")
    module = Public.with_functions({**Public.functions, Public.get_global_var("entry"): entry})
    made = transform.NormalizeGlobalVar()(module)
    assert problems(made) == []
    assert sorted(name.name_hint for name in made) == ["main", "main1"]
    (x,) = arrays(((4,),))
    same_values(run(made, x), np.exp(x))
    stays(transform.NormalizeGlobalVar(), Public)
    twice = IRModule({"a": entry, "b": entry})
    with pytest.raises(IRError, match="two functions have the global_symbol 'main'"):
        transform.NormalizeGlobalVar()(twice)


@I.ir_module
class Chain:
    @T.prim_func(private=True)
    def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                T.reads(A[v], B[v])
                T.writes(C[v])
                C[v] = A[v] + B[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Chain
        with R.dataflow():
            a = R.call_tir(cls.add, (x, x), out_sinfo=R.Tensor((4,), "float32"))
            b = R.call_tir(cls.add, (a, x), out_sinfo=R.Tensor((4,), "float32"))
            c = R.call_tir(cls.add, (x, b), out_sinfo=R.Tensor((4,), "float32"))
            d = R.call_tir(cls.add, (c, c), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.add, (d, c), out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


@I.ir_module
class InPlace:
    @T.prim_func(private=True)
    def add(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                T.reads(A[v], B[v])
                T.writes(C[v])
                C[v] = A[v] + B[v]

    @T.prim_func(private=True)
    def add_inplace(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                T.reads(A[v], B[v])
                T.writes(A[v])
                A[v] = A[v] + B[v]

    @T.prim_func(private=True)
    def add_inplace1(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                T.reads(A[v], B[v])
                T.writes(B[v])
                B[v] = A[v] + B[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = InPlace
        with R.dataflow():
            a = R.call_tir(cls.add, (x, x), out_sinfo=R.Tensor((4,), "float32"))
            b = R.call_tir_inplace(cls.add_inplace, (a, x), inplace_indices=[0], out_sinfo=R.Tensor((4,), "float32"))
            c = R.call_tir_inplace(cls.add_inplace1, (x, b), inplace_indices=[1], out_sinfo=R.Tensor((4,), "float32"))
            d = R.call_tir(cls.add, (c, c), out_sinfo=R.Tensor((4,), "float32"))
            gv = R.call_tir_inplace(cls.add_inplace, (d, c), inplace_indices=[0], out_sinfo=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


def on_machine(mod: Any, *args: Any) -> Any:
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    found = machine["main"](*args)
    return tuple(item.numpy() for item in found) if isinstance(found, tuple) else found.numpy()


def test_elementwise_kernels_write_over_what_is_dead() -> None:
    computes(INPLACE, Chain, (4,), after=InPlace)
    (x,) = arrays(((4,),))
    kept = x.copy()
    same_values(on_machine(InPlace, x), run(Chain, x))
    np.testing.assert_array_equal(x, kept)


def test_operators_write_over_what_is_dead() -> None:
    @R.function
    def graph(x: R.Tensor(("n", 4), "float32"), b: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            c = R.add(b, a)
            d = R.reshape(c, R.shape([4, -1]))
            e = R.reshape(d, R.shape([-1, 4]))
            f = R.nn.relu(e)
            gv = R.add(f, c)
            R.output(gv)
        return gv

    made = computes(INPLACE, graph, (3, 4), (4,))
    text = made["main"].script()
    assert text.count("call_tir_inplace") == 2  # c in a, gv in f
    args = arrays(((3, 4), (4,)))
    same_values(on_machine(as_module(graph), *args), run(as_module(graph), *args))


def test_results_on_another_device_are_arrays_of_their_own() -> None:
    @R.function
    def graph(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32", "llvm:0")):
        with R.dataflow():
            a = R.exp(x)
            gv = R.add(a, y)
            R.output(gv)
        return gv

    assert "call_tir_inplace" not in computes(INPLACE, graph, (4,), (4,))["main"].script()


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_in_place(seed: int) -> None:
    graph = random_graph(seed, 14, symbolic=seed % 2 == 0)
    wanted = run(graph.module, *graph.args)
    kernels = transform.LegalizeOps()(graph.module)
    for before in (graph.module, kernels):
        made = INPLACE(before)
        assert problems(made) == []
        names = ["LegalizeOps", "RewriteDataflowReshape", "ToNonDataflow", "RemovePurityChecking", "CallTIRRewrite"]
        lowered = Sequential([getattr(transform, name)() for name in (*names, "StaticPlanBlockMemory")])(made)
        kept = [np.array(arg) for arg in graph.args]
        same_values(run(lowered, *kept), wanted)  # kernels write into arguments here
        for a, b in zip(kept, graph.args):
            np.testing.assert_array_equal(a, b)
    again = transform.ConvertToDataflow()(transform.ToNonDataflow()(graph.module))
    assert problems(again) == []
    same_values(run(again, *graph.args), wanted)
    for order in ("depth-first", "breadth-first"):
        for direction in ("from-inputs", "from-outputs"):
            made = transform.TopologicalSort(order, direction)(graph.module)
            assert problems(made) == []
            same_values(run(made, *graph.args), wanted)
    same_values(run(transform.RemoveRedundantReshape()(graph.module), *graph.args), wanted)
