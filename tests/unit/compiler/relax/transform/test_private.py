"""Private functions, before and after their parameters, results and calls change."""

import numpy as np
import pytest

from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import arrays, becomes, computes, same_values, stays
from tests.kit.compiler.random_graphs import random_graph
from tunefarm.relax import BlockBuilder, Call, TensorStructInfo, Tuple, TupleGetItem, Var, op, transform
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T


@I.ir_module
class Pairs:
    @R.function(private=True)
    def inner(
        pair: R.Tuple(R.Tensor(("n",), "float32"), R.Tuple(R.Tensor(("n",), "float32"))), b: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        x = pair[0]
        rest = pair[1]
        y = rest[0]
        z = R.multiply(x, y)
        w = R.add(z, b)
        return w

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tuple(R.Tensor(("n",), "float32"))) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = Pairs
        pair = (x, y)
        z = cls.inner(pair, x)
        return z


@I.ir_module
class OneByOne:
    @R.function(private=True)
    def inner(
        pair_0: R.Tensor(("n",), "float32"), pair_1_0: R.Tensor(("n",), "float32"), b: R.Tensor(("n",), "float32")
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        pair = (pair_0, (pair_1_0,))
        x = pair_0
        rest = (pair_1_0,)
        y = pair_1_0
        z = R.multiply(x, y)
        w = R.add(z, b)
        return w

    @R.function
    def main(x: R.Tensor(("n",), "float32"), y: R.Tuple(R.Tensor(("n",), "float32"))) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        cls = OneByOne
        pair = (x, y)
        lv = pair[0]
        lv1 = pair[1]
        lv2 = lv1[0]
        z = cls.inner(lv, lv2, x)
        return z


def test_tuples_are_given_one_by_one() -> None:
    made = computes(transform.ExpandTupleArguments(), Pairs, (3,), [(3,)])
    clean = transform.CanonicalizeBindings()
    same = transform.DeadCodeElimination()(clean(made))
    wanted = transform.DeadCodeElimination()(clean(OneByOne))
    assert same["inner"].script() == wanted["inner"].script()
    assert len(made["inner"].params) == 3
    stays(transform.ExpandTupleArguments(), OneByOne)


@I.ir_module
class Unused:
    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
        z = R.exp(x)
        return z

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
        z = Unused.inner(x, y)
        return z


@I.ir_module
class Used:
    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        z = R.exp(x)
        return z

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor((4,), "float32"):
        z = Used.inner(x)
        return z


def test_parameters_that_nothing_uses_go() -> None:
    remove = transform.RemoveUnusedParameters()
    computes(remove, Unused, (4,), (3,), after=Used)
    stays(remove, Used)


@I.ir_module
class Sized:
    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32"), y: R.Tensor(("n",), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        z = R.broadcast_to(x, R.shape([n, 4]))
        return z

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("m", 4), "float32"):
        m = T.int64()
        z = Sized.inner(x, y)
        return z


@I.ir_module
class BySize:
    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32"), sizes: R.Shape(["n"])) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        z = R.broadcast_to(x, R.shape([n, 4]))
        return z

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor(("m",), "float32")) -> R.Tensor(("m", 4), "float32"):
        m = T.int64()
        z = BySize.inner(x, R.shape([m]))
        return z


def test_dimensions_that_only_an_unused_parameter_told_are_given() -> None:
    computes(transform.RemoveUnusedParameters(), Sized, (4,), (3,), after=BySize)
    stays(transform.RemoveUnusedParameters(), BySize)


def three_results(kept: tuple[int, ...]) -> object:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((4,), "float32"))
    with bb.function("inner", [x], private=True):
        made = [bb.emit(make(x)) for index, make in enumerate((op.exp, op.tanh, op.negative)) if index in kept]
        inner = bb.emit_func_output(made[0] if len(made) == 1 else Tuple(tuple(made)))
    y = Var("x", TensorStructInfo((4,), "float32"))
    with bb.function("main", [y]):
        parts = bb.emit(Call(inner, [y]))
        if len(kept) == 1:
            bb.emit_func_output(bb.emit(op.add(parts, parts)))
        else:
            first, last = bb.emit(TupleGetItem(parts, 0)), bb.emit(TupleGetItem(parts, len(kept) - 1))
            bb.emit_func_output(bb.emit(op.add(first, last)))
    return bb.get()


def test_results_that_no_caller_uses_go() -> None:
    remove = transform.RemoveUnusedOutputs()
    computes(remove, three_results((0, 1, 2)), (4,), after=three_results((0, 2)))
    stays(remove, three_results((0, 2)))


def test_a_single_result_is_no_tuple() -> None:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo((4,), "float32"))
    with bb.function("inner", [x], private=True):
        inner = bb.emit_func_output(Tuple((bb.emit(op.exp(x)), bb.emit(op.tanh(x)))))
    y = Var("x", TensorStructInfo((4,), "float32"))
    with bb.function("main", [y]):
        parts = bb.emit(Call(inner, [y]))
        first = bb.emit(TupleGetItem(parts, 0))
        bb.emit_func_output(bb.emit(op.add(first, first)))
    made = computes(transform.RemoveUnusedOutputs(), bb.get(), (4,))
    becomes(transform.CanonicalizeBindings(), made, three_results((0,)))


@I.ir_module
class Nested:
    @R.function(private=True)
    def deepest(x: R.Tensor(("k",), "float32")) -> R.Tensor(("k",), "float32"):
        k = T.int64()
        y = R.exp(x)
        return y

    @R.function(private=True)
    def inner(x: R.Tensor(("m",), "float32")) -> R.Tensor(("m",), "float32"):
        m = T.int64()
        y = Nested.deepest(x)
        z = R.negative(y)
        return z

    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = Nested.inner(x)
        z = Nested.inner(y)
        return z


@I.ir_module
class Inlined:
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        a = R.exp(x)
        b = R.negative(a)
        y = b
        c = R.exp(y)
        d = R.negative(c)
        z = d
        return z


def test_private_functions_are_put_where_they_are_called() -> None:
    made = computes(transform.InlinePrivateFunctions(), Nested, (3,))
    assert [name.name_hint for name in made] == ["main"]
    clean = transform.CanonicalizeBindings()
    becomes(clean, made, clean(Inlined))


def test_functions_that_call_themselves_stay() -> None:
    @I.ir_module
    class Recursive:
        @R.function(private=True)
        def loop(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            if c:
                y = Recursive.loop(c, x)
            else:
                y = R.exp(x)
            return y

        @R.function
        def main(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = Recursive.loop(c, x)
            return y

    stays(transform.InlinePrivateFunctions(), Recursive)


@pytest.mark.parametrize("seed", range(4))
def test_random_functions_called_twice(seed: int) -> None:
    graph = random_graph(seed, 6)
    bb = BlockBuilder(graph.module)
    body = graph.module["main"].without_attr("global_symbol")
    inner = bb.add_func(body, "inner")
    own = [Var(param.name_hint, param.struct_info) for param in body.params]
    with bb.function("twice", own):
        first = bb.emit(Call(inner, own))
        info = first.struct_info
        taken = bb.emit(TupleGetItem(first, 0)) if hasattr(info, "fields") else first
        second = bb.emit(Call(inner, [taken, *own[1:]]))
        last = bb.emit(TupleGetItem(second, 0)) if hasattr(info, "fields") else second
        bb.emit_func_output(bb.emit(op.add(taken, last)))
    module = bb.get()
    args = arrays(graph.args)
    wanted = run(module, *args, func="twice")
    for name in ("InlinePrivateFunctions", "RemoveUnusedOutputs", "RemoveUnusedParameters", "ExpandTupleArguments"):
        made = getattr(transform, name)()(module)
        same_values(run(made, *args, func="twice"), wanted)
    assert np.shape(wanted) == (3, 4)
