"""relax.dpl: what patterns match, held to brute force on random graphs; rewriting, held to the interpreter."""

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from compiler.errors import ArgumentError
from compiler.ir.transform.config import TransformError
from compiler.relax.analysis import get_var2val, problems
from compiler.relax.interp import run
from tests.kit.compiler.pass_checks import as_module
from tunefarm import relax, tir
from tunefarm.ir import GlobalVar
from tunefarm.relax import BlockBuilder, Call, Constant, DataflowVar, TensorStructInfo, Tuple, Var, op
from tunefarm.relax.dpl import (
    PatternContext,
    PatternMatchingRewriter,
    TuplePattern,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    match_graph,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from tunefarm.relax.dpl.pattern import CallPattern, OrPattern
from tunefarm.script import relax as R

UNARY, BINARY = ("exp", "negative"), ("add", "multiply")
F4 = TensorStructInfo((4,), "float32")


def function(make: Any, *infos: Any) -> Any:
    """A function whose dataflow block gives what `make(builder, *parameters)` returns."""
    bb = BlockBuilder()
    params = [Var(f"p{number}", info) for number, info in enumerate(infos)]
    with bb.function("main", params):
        with bb.dataflow():
            made = make(bb, *params)
            outs = [bb.emit_output(item) for item in (made if isinstance(made, list) else [made])]
        bb.emit_func_output(outs[0] if len(outs) == 1 else Tuple(tuple(outs)))
    return bb.get()["main"]


def random_function(rng: Any, steps: int) -> Any:
    """A function of `steps` unary and binary operators, of two parameters and a constant."""

    def make(bb: Any, *params: Any) -> Any:
        values = [*params, relax.const(np.ones(4, "float32"))]
        for _ in range(steps):
            name = str(rng.choice([*UNARY, *BINARY]))
            picked = [values[rng.integers(len(values))] for _ in range(1 if name in UNARY else 2)]
            values.append(bb.emit(getattr(op, name)(*picked)))
        return [values[-1]]

    return function(make, F4, F4)


def agrees(before: Any, after: Any) -> None:
    assert problems(as_module(after)) == []
    rng = np.random.default_rng(0)
    args = [rng.uniform(-1, 1, [int(d) for d in p.struct_info.dims]).astype("float32") for p in before.params]
    for got, wanted in zip(np.atleast_1d(run(after, *args)), np.atleast_1d(run(before, *args)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------------------- expressions


def random_pattern(rng: Any, depth: int, shared: list[Any]) -> Any:
    choice = rng.integers(8) if depth else rng.integers(3)
    if choice == 0 and shared:
        return shared[rng.integers(len(shared))]
    if choice == 1:
        made: Any = is_const()
    elif choice <= 2:
        made = wildcard()
        shared.append(made)
    elif choice == 3:
        made = random_pattern(rng, depth - 1, shared) | random_pattern(rng, depth - 1, shared)
    else:
        name = str(rng.choice([*UNARY, *BINARY]))
        count = 1 if name in UNARY else 2
        made = is_op(f"relax.{name}")(*[random_pattern(rng, depth - 1, shared) for _ in range(count)])
    return made


def parts_of(pattern: Any) -> list[Any]:
    own = {CallPattern: lambda: pattern.args, OrPattern: lambda: (pattern.left, pattern.right)}.get(type(pattern))
    below = [found for part in (own() if own else ()) for found in parts_of(part)]
    return list(dict.fromkeys([pattern, *below]))


def exists(pattern: Any, expr: Any, values: dict[Any, Any]) -> bool:
    """Whether patterns can be given expressions, of all there are, so that each fits: tried one by one."""

    def value(item: Any) -> Any:
        return value(values[item]) if isinstance(item, Var) and item in values else item

    known = {id(value(item)): value(item) for item in [*values, expr]}
    for item in list(known.values()):
        known |= {id(value(arg)): value(arg) for arg in getattr(item, "args", ())}
    patterns = parts_of(pattern)[1:]
    if len(known) ** len(patterns) > 3_000:
        return bool(pattern.match(expr, values))  # too many: not checked

    def fits(part: Any, given: dict[Any, Any]) -> bool:
        found = given[part]
        match part:
            case CallPattern():
                same = isinstance(found, Call) and found.op is part.op.expr and len(found.args) == len(part.args)
                return same and all(
                    value(arg) is given[own] and fits(own, given)
                    for arg, own in zip(found.args, part.args, strict=True)
                )
            case OrPattern():
                return any(given[side] is found and fits(side, given) for side in (part.left, part.right))
        return isinstance(found, Constant) if type(part).__name__ == "ConstantPattern" else True

    return any(
        fits(pattern, {**dict(zip(patterns, picked, strict=True)), pattern: value(expr)})
        for picked in product(known.values(), repeat=len(patterns))
    )


def test_trees_match_where_any_assignment_fits() -> None:
    rng, matched = np.random.default_rng(1), 0
    for _ in range(80):
        func = random_function(rng, int(rng.integers(2, 6)))
        values = get_var2val(func)
        for _ in range(6):
            pattern = random_pattern(rng, 2, [])
            found = pattern.extract_matched_expr(func.body.body, values)
            assert (found is not None) == exists(pattern, func.body.body, values), (pattern, func)
            copy = pattern.dup()
            assert copy is not pattern
            assert copy.match(func.body.body, values) == (found is not None)
            matched += found is not None
    assert matched > 50


def test_leaves_and_properties() -> None:
    n = tir.Var("n", "int64")
    x, lv = Var("x", TensorStructInfo((n, 4), "float32")), DataflowVar("lv", TensorStructInfo((n, 4), "float32"))
    add, call = op.add(x, x), op.nn.softmax(x, axis=1)
    assert is_var().match(x)
    assert is_var("x").match(x)
    assert not is_var("y").match(x)
    assert not is_dfv().match(x)
    assert is_dfv().match(lv)
    assert is_dfv("lv").match(lv)
    assert not is_dfv("x").match(lv)
    assert not is_var().match(lv, {lv: add})  # it is looked through
    assert wildcard().has_dtype("float32").match(x)
    assert not wildcard().has_dtype("int32").match(x)
    assert wildcard().has_shape([n, 4]).match(x)
    assert not wildcard().has_shape([n, 5]).match(x)
    assert not wildcard().has_shape([4]).match(x)
    assert wildcard().has_struct_info(TensorStructInfo(ndim=2, dtype="float32")).match(x)
    assert not wildcard().has_struct_info(TensorStructInfo(ndim=3, dtype="float32")).match(x)
    assert is_op("relax.nn.softmax")(wildcard()).has_attr({"axis": 1}).match(call)
    assert not is_op("relax.nn.softmax")(wildcard()).has_attr({"axis": 0}).match(call)
    assert not wildcard().has_attr({"no": 1}).match(x)
    assert is_shape([2, n]).match(relax.ShapeExpr((2, n)))
    assert not is_shape([2]).match(relax.ShapeExpr((2, n)))
    assert is_expr(x).match(x)
    assert is_expr(x).match(lv, {lv: x})
    assert not is_expr(x).match(lv)
    assert is_expr(relax.const(1.0)).match(relax.const(1.0))
    assert (~is_const()).match(x)
    assert not (~is_const()).match(relax.const(1))
    assert (is_var() & wildcard().has_dtype("float32")).match(x)
    assert not (is_var() & is_const()).match(x)
    assert is_op("relax.add")(wildcard(), varg_default_wildcard=True).match(add)
    assert not is_op("relax.add")(wildcard()).match(add)
    with pytest.raises(ArgumentError, match=r"relax\.ad"):
        is_op("relax.ad")
    with pytest.raises(ArgumentError, match="no pattern"):
        is_op("relax.add")(x, x)  # type: ignore[arg-type]


def test_tuples_in_order_and_out_of_it() -> None:
    x, c = Var("x", F4), relax.const(np.ones(4, "float32"))
    pair, whole = Tuple((x, c)), Var("t")
    assert is_tuple([is_var(), is_const()]).match(pair)
    assert not is_tuple([is_const(), is_var()]).match(pair)
    assert is_tuple([is_const(), is_var()], unordered=True).match(pair)
    assert is_tuple([wildcard(), is_var()], unordered=True).match(pair)  # the wildcard has to take the constant
    assert not is_tuple([is_var(), is_var()], unordered=True).match(pair)
    split = op.split(x, 2)
    assert is_tuple_get_item(is_op("relax.split")(wildcard()), 1).match(relax.TupleGetItem(whole, 1), {whole: split})
    assert not is_tuple_get_item(wildcard(), 0).match(relax.TupleGetItem(whole, 1), {whole: split})
    assert is_const().match(relax.TupleGetItem(whole, 1), {whole: pair})  # the field itself
    assert isinstance(is_tuple([wildcard()]), TuplePattern)
    assert is_tuple([wildcard(), wildcard()])[1].match(relax.TupleGetItem(whole, 1), {whole: pair})
    with pytest.raises(IndexError):
        is_tuple([wildcard()])[1]


def test_calls_of_kernels_and_packed_functions() -> None:
    x, kernel = Var("x", F4), GlobalVar("kernel")
    call = relax.call_tir(kernel, (x,), F4)
    assert is_call_tir("kernel").match(call)
    assert is_call_tir("kernel", [is_var("x")]).match(call)
    assert not is_call_tir("kernel", [is_const()]).match(call)
    assert not is_call_tir("other").match(call)
    packed = relax.call_dps_packed("f", (x,), F4)
    assert is_call_dps_packed("f", [wildcard()]).match(packed)
    assert not is_call_dps_packed("g").match(packed)
    plain = Call(relax.ExternFunc("f"), (x, x))
    assert is_call_packed("f").match(plain)
    assert is_call_packed("f", [wildcard(), is_var()]).match(plain)
    assert not is_call_packed("f", [wildcard()]).match(plain)
    assert is_gv("kernel").match(kernel)
    assert not is_gv("other").match(kernel)


def test_bias_and_activation() -> None:
    pattern = make_fused_bias_activation_pattern("relax.nn.conv2d", True, "relax.nn.relu", allow_reshape=True)
    infos = [TensorStructInfo(shape, "float32") for shape in ((1, 3, 8, 8), (4, 3, 3, 3), (4,))]

    def make(bb: Any, x: Any, w: Any, b: Any) -> Any:
        conv = bb.emit(op.nn.conv2d(x, w))
        return bb.emit(op.nn.relu(bb.emit(op.add(conv, bb.emit(op.reshape(b, (1, 4, 1, 1)))))))

    func = function(make, *infos)
    assert pattern.match(func.body.body, get_var2val(func))
    assert not make_fused_bias_activation_pattern("relax.nn.conv2d", True).match(func.body.body, get_var2val(func))


# ------------------------------------------------------------------------------------ graphs


def brute_force(uses: list[Any], block: Any, ops: dict[Any, str]) -> Iterator[dict[Any, Any]]:
    """Every way to give the patterns of `uses` different variables of the block."""
    values = {binding.var: binding.value for binding in block.bindings if isinstance(binding.value, Call)}
    users = {var: {own for own, value in values.items() if var in value.args} for var in values}
    users |= {v: users[v] | {b.var for b in block.bindings if b.value is v} for v in values}
    patterns = list(dict.fromkeys(end for a, b, _, _ in uses for end in (a, b)))
    for picked in permutations(values, len(patterns)):
        given = dict(zip(patterns, picked, strict=True))
        if any(values[given[p]].op.name != ops[p] for p in patterns):
            continue
        if all(
            (
                given[a] in values[given[b]].args
                if index < 0
                else values[given[b]].args[index : index + 1] == (given[a],)
            )
            and (not only or (isinstance(given[a], DataflowVar) and users[given[a]] == {given[b]}))
            for a, b, index, only in uses
        ):
            yield given


def test_graphs_match_where_brute_force_does() -> None:
    rng, matched = np.random.default_rng(2), 0
    for _ in range(250):
        func = random_function(rng, int(rng.integers(3, 7)))
        block = func.body.blocks[0]
        known = [binding.value.op.name for binding in block.bindings if isinstance(binding.value, Call)]
        names = [str(rng.choice(known)) for _ in range(int(rng.integers(2, 4)))]
        with PatternContext() as ctx:
            patterns = [is_op(name)(varg_default_wildcard=True) for name in names]
            uses = []
            for number in range(1, len(patterns)):
                first, index, only = patterns[rng.integers(number)], int(rng.integers(-1, 2)), bool(rng.integers(2))
                if rng.integers(3) == 0:
                    first.fork_to(patterns[number])
                    index, only = -1, False
                else:
                    (first.only_used_by if only else first.used_by)(patterns[number], index)
                uses.append((first, patterns[number], index, only))
        ways = list(brute_force(uses, block, dict(zip(patterns, names, strict=True))))
        found = ctx.match_dfb(block)
        assert (found is not None) == bool(ways), (func, names, uses)
        if found is not None:
            assert {p: found[p] for p in patterns} in ways
            matched += 1
    assert matched > 25


def test_contexts() -> None:
    def make(bb: Any, x: Any, y: Any) -> Any:
        first = bb.emit(op.exp(x))
        return [bb.emit(op.add(first, bb.emit(op.negative(first)))), bb.emit(op.multiply(y, first))]

    block = function(make, F4, F4).body.blocks[0]
    with PatternContext() as outer:
        exp, neg = is_op("relax.exp")(wildcard()), is_op("relax.negative")(wildcard(), add_constraint=False)
        exp ^ neg
        with PatternContext(incremental=True) as inner:
            mul = is_op("relax.multiply")(wildcard(), wildcard(), add_constraint=False)
            exp.used_by(mul, 0)
        with PatternContext(incremental=True) as right:
            exp.used_by(mul, 1)
    assert outer.match_dfb(block) is not None
    assert inner.match_dfb(block) is None
    found = match_graph(right, block)
    assert found is not None
    assert found[exp] is block.bindings[0].var
    with PatternContext() as only:
        exp >> neg
    assert only.match_dfb(block) is None
    with PatternContext() as either:  # what stands in the other alternative need not be there
        either_op = is_op("relax.abs")(wildcard()) | is_op("relax.exp")(wildcard())
        either_op.used_by(neg)
    assert either.match_dfb(block) is not None
    with PatternContext() as same:
        a, b = wildcard(), wildcard()
        is_op("relax.multiply")(a, b).same_shape_as(a, b)
    assert same.match_dfb(block) is not None
    with PatternContext() as constants:
        is_op("relax.add")(wildcard(), is_const())
    block = function(lambda bb, x: bb.emit(op.add(x, relax.const(np.ones(4, "float32")))), F4).body.blocks[0]
    assert constants.match_dfb(block) is not None
    assert PatternContext().match_dfb(block) is None


# ---------------------------------------------------------------------------------- rewriting


def test_rules_for_expressions_keep_the_meaning() -> None:
    rng = np.random.default_rng(3)
    a, b = wildcard(), wildcard()
    twice, total = is_op("relax.negative")(is_op("relax.negative")(a)), is_op("relax.add")(a, b)
    changed = 0
    for _ in range(25):
        func = random_function(rng, 8)
        made = rewrite_call(twice, lambda expr, found: found[a], func)
        values = get_var2val(made)
        assert not any(twice.match(value, values) for value in values.values())
        made = rewrite_call(total, lambda expr, found: op.subtract(found[a], op.negative(found[b])), made)
        assert "R.add" not in str(made)
        changed += made is not func
        agrees(func, made)
    assert changed > 10


def test_rules_do_not_compute_twice_and_end() -> None:
    def make(bb: Any, x: Any) -> Any:
        y = bb.emit(op.exp(x))
        return [bb.emit(op.add(y, y)), bb.emit(op.negative(y))]

    func = function(make, F4)
    a = wildcard()
    made = rewrite_call(is_op("relax.add")(a, a), lambda expr, found: op.multiply(found[a], relax.const(2.0)), func)
    assert str(made).count("R.exp") == 1
    agrees(func, made)
    assert rewrite_call(is_op("relax.add")(a, a), lambda expr, found: expr, func) is func
    with pytest.raises(TransformError, match="rounds"):
        rewrite_call(is_op("relax.negative")(a), lambda expr, found: op.negative(found[a]), func)


def test_products_of_one_value_become_one() -> None:
    infos = [TensorStructInfo((4, 8), "float32"), *[TensorStructInfo((8, 5), "float32")] * 3]

    def make(bb: Any, x: Any, *weights: Any) -> Any:
        late = bb.emit(op.exp(weights[2]))
        return [bb.emit(op.matmul(x, w)) for w in (*weights[:2], late)]

    func = function(make, *infos)
    with PatternContext() as ctx:
        x, weights = wildcard(), [wildcard() for _ in range(3)]
        products = [is_op("relax.matmul")(x, w) for w in weights]

    def rule(found: Any, bindings: Any) -> Any:
        whole = op.matmul(found[x], op.concat([found[w] for w in weights], axis=1))
        parts = op.split(whole, 3, axis=1)
        return {found[p]: relax.TupleGetItem(parts, i) for i, p in enumerate(products)}

    made = rewrite_bindings(ctx, rule, func)
    assert str(made).count("R.matmul") == 1
    agrees(func, made)
    assert rewrite_bindings(ctx, lambda found, bindings: {}, func) is func


# --------------------------------------------------------------------------------- rewriters


@R.rewriter
class SumOfSquares:
    @R.function
    def pattern(a: R.Tensor(("m",), "float32"), b: R.Tensor(("m",), "float32")):
        c = R.add(R.multiply(a, a), R.multiply(b, b))
        return c

    @R.function
    def replacement(a: R.Tensor(("m",), "float32"), b: R.Tensor(("m",), "float32")):
        c = R.subtract(R.multiply(R.add(a, b), R.add(a, b)), R.multiply(R.const(2.0), R.multiply(a, b)))
        return c


@R.rewriter
class BothAtOnce:
    @R.function
    def pattern(a: R.Tensor((4,), "float32")):
        c = R.exp(a)
        d = R.negative(a)
        return (c, d)

    @R.function
    def replacement(a: R.Tensor((4,), "float32")):
        both = R.split(R.concat((R.exp(a), R.subtract(R.const(0.0), a)), axis=0), 2)
        return (both[0], both[1])


def test_rewriters_made_of_functions() -> None:
    def squares(bb: Any, x: Any, y: Any) -> Any:
        a, b = bb.emit(op.exp(x)), bb.emit(op.negative(y))
        return bb.emit(op.add(bb.emit(op.multiply(a, a)), bb.emit(op.multiply(b, b))))

    func = function(squares, F4, F4)
    made = SumOfSquares(func)
    assert "R.subtract" in str(made)
    assert str(made).count("R.exp") == 1
    agrees(func, made)
    uneven = function(squares, F4, TensorStructInfo((1,), "float32"))  # the pattern has two of one size
    assert SumOfSquares(uneven) is uneven

    def apart(bb: Any, x: Any, y: Any) -> Any:
        a = bb.emit(op.exp(x))
        b = bb.emit(op.negative(y))
        c = bb.emit(op.negative(x))
        return [bb.emit(op.add(a, b)), c]

    func = function(apart, F4, F4)
    made = BothAtOnce(as_module(func))["main"]
    assert str(made).count("R.split") == 1
    assert str(made).count("R.negative") == 1  # of y, which no exp belongs to
    agrees(func, made)
    either = SumOfSquares | BothAtOnce
    assert "R.split" in str(either(func))
    a = wildcard()
    rule = PatternMatchingRewriter.from_pattern(is_op("relax.exp")(a), lambda expr, found: op.sin(found[a]))
    assert "R.sin" in str((rule | BothAtOnce)(func))
    with pytest.raises(ArgumentError, match="two graph functions"):
        PatternMatchingRewriter.from_module(as_module(func))
