"""Questions about graphs, and rewriting dataflow blocks."""

from typing import Any

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError, TunefarmError
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.relax import analysis, op
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.rewrite import DataflowBlockRewrite
from compiler.te.operation import placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from tests.kit.compiler.struct_info import tensor

K = n.Var("k", "int64")


def chain() -> tuple[IRModule, r.Function, r.DataflowBlock, dict[str, r.Var]]:
    """y = relu(x + x), with `unused` beside it."""
    x = r.Var("x", tensor(K))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit(op.add(x, x), "a")
            dead = bb.emit(op.multiply(a, a), "dead")
            unused = bb.emit(op.subtract(dead, x), "unused")
            y = bb.emit_output(op.nn.relu(a), "y")
        bb.emit_func_output(y)
    func = bb.get()["main"]
    assert isinstance(func, r.Function)
    (block,) = func.body.blocks
    assert isinstance(block, r.DataflowBlock)
    return bb.get(), func, block, {"x": x, "a": a, "dead": dead, "unused": unused, "y": y}


def test_variables() -> None:
    _, func, block, v = chain()
    assert analysis.bound_vars(func) == [v["x"], v["a"], v["dead"], v["unused"], v["y"]]
    assert analysis.free_vars(func) == []
    assert analysis.free_vars(func.body) == [v["x"]]
    assert set(analysis.all_vars(func)) == set(v.values())
    assert analysis.defined_symbolic_vars(func) == [K]
    assert analysis.free_symbolic_vars(func) == []
    other = r.Function([r.Var("s", r.ShapeStructInfo(ndim=1))], r.Var("out", tensor(K)))
    assert analysis.free_symbolic_vars(other)[0] is K
    assert block


def test_global_vars() -> None:
    f, g = GlobalVar("f"), GlobalVar("g")
    call = r.Call(f, (g, r.Call(f, ())))
    assert analysis.all_global_vars(call) == [f, g]
    assert analysis.called_global_vars(call) == [f]


def test_uses() -> None:
    _, func, block, v = chain()
    chains = analysis.udchain(block)
    assert chains[v["x"]] == [v["a"], v["unused"]]
    assert chains[v["a"]] == [v["dead"], v["y"]]
    assert chains[v["y"]] == []
    values = analysis.get_var2val(func)
    assert isinstance(values[v["a"]], r.Call)
    assert [b.var for b in analysis.name_to_binding(func)["a"]] == [v["a"]]


def test_remove_all_unused() -> None:
    _, func, _, v = chain()
    swept = analysis.remove_all_unused(func)
    assert [b.var for b in swept.body.blocks[0].bindings] == [v["a"], v["y"]]
    assert analysis.remove_all_unused(swept) is swept
    assert analysis.well_formed(swept)


def test_side_effects_and_dimensions_keep_bindings() -> None:
    x, c = r.Var("x", r.TensorStructInfo(ndim=1)), r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]
    m = n.Var("m", "int64")
    bb = BlockBuilder()
    with bb.function("main", [x, c], pure=False):
        bb.emit(op.print(x, format="{}"), "printed")
        bb.emit(r.Call(r.extern("f"), (x,)), "packed")
        with bb.dataflow():
            cast = bb.match_cast(x, tensor(m), "cast")
            bb.match_cast(x, tensor(n.Var("other", "int64")), "needless")
            made = bb.emit_output(op.add(x, x), "made")
        noise = r.VarBinding(r.Var("p"), op.print(made)), r.VarBinding(r.Var("u"), op.nn.relu(made))
        loud = r.SeqExpr((r.BindingBlock(noise),), made)
        bb.emit(r.If(c, loud, made), "chosen")  # type: ignore[arg-type]
        bb.emit(op.nn.relu(made), "dead")
        last = bb.match_cast(made, tensor(m), "last")
        bb.emit_func_output(last)
    assert cast.struct_info == tensor(m)
    func = bb.get()["main"]
    assert isinstance(func, r.Function)
    swept = analysis.remove_all_unused(func)
    names = [b.var.name_hint for block in swept.body.blocks for b in block.bindings]
    assert names == ["printed", "packed", "cast", "made", "chosen", "last"]
    branch = swept.body.blocks[-1].bindings[0].value
    assert isinstance(branch, r.If)
    assert [b.var.name_hint for b in branch.true_branch.blocks[0].bindings] == ["p"]
    assert analysis.problems(swept) == []


def test_purity() -> None:
    x = r.Var("x", tensor(2))
    assert analysis.contains_impure_call(op.print(x))
    assert analysis.contains_impure_call(r.Call(r.extern("f"), (x,)))
    assert not analysis.contains_impure_call(op.add(x, x))
    me = GlobalVar("me")
    assert analysis.contains_impure_call(r.Call(me, (x,)))
    assert not analysis.contains_impure_call(r.Call(me, (x,)), own_name=me)
    loud = r.Function([x], r.SeqExpr((), op.print(x)), tensor(2))
    assert analysis.contains_impure_call(loud)
    quiet = r.SeqExpr((r.BindingBlock((r.VarBinding(r.Var("f", loud.struct_info), loud),)),), x)
    assert not analysis.contains_impure_call(quiet)
    pure = op.call_pure_packed("f", x, sinfo_args=tensor(2))
    assert not analysis.is_impure_call(pure)


def test_recursion() -> None:
    def calling(*names: str) -> r.Function:
        x = r.Var("x", tensor(2))
        bindings = [r.VarBinding(r.Var("y", tensor(2)), r.Call(GlobalVar(name), (x,))) for name in names]
        return r.Function([x], r.SeqExpr((r.BindingBlock(tuple(bindings)),), x), tensor(2))

    mod = IRModule({"a": calling("b"), "b": calling("c", "d"), "c": calling("a"), "d": calling("d"), "e": calling("a")})
    found = [[g.name_hint for g in group] for group in analysis.detect_recursion(mod)]
    assert found == [["a", "b", "c"], ["d"]]
    long = IRModule({f"f{i:04}": calling(f"f{(i + 1) % 3000:04}") for i in range(3000)})
    assert len(analysis.detect_recursion(long)[0]) == 3000


def test_what_weights_alone_tell() -> None:
    x, w = r.Var("x", tensor(2)), r.Var("w", tensor(2))
    bb = BlockBuilder()
    with bb.function("main", [x, w], attrs={"num_input": 1}):
        a = bb.emit(op.add(w, w))
        b = bb.emit(op.multiply(x, a))
        c = bb.emit(op.nn.relu(a))
        bb.emit_func_output([b, c])
    func = bb.get()["main"]
    assert isinstance(func, r.Function)
    assert analysis.computable_at_compile_time(func) == [a, c]
    assert analysis.computable_at_compile_time(func.without_attr("num_input")) == []


def test_post_order_visit() -> None:
    x = r.Var("x", tensor(2))
    inner = op.add(x, x)
    seen: list[Any] = []
    analysis.post_order_visit(op.multiply(inner, inner), seen.append)
    kinds = [item.name if isinstance(item, Op) else type(item).__name__ for item in seen]
    assert kinds == ["relax.multiply", "relax.add", "Var", "Call", "Call"]


def test_reshape_pattern() -> None:
    a = placeholder((4, 6), "float32", "A")
    assert analysis.has_reshape_pattern(create_prim_func([a, topi.reshape(a, (3, 8))]))
    assert not analysis.has_reshape_pattern(create_prim_func([a, topi.transpose(a)]))
    first_rows = create_prim_func([a, topi.strided_slice(a, [0], [1], None, [0])])
    assert not analysis.has_reshape_pattern(first_rows)  # in the same order, but not all of it
    assert not analysis.has_reshape_pattern(create_prim_func([a, topi.nn.relu(a)]))
    assert not analysis.has_reshape_pattern(create_prim_func([a, topi.sum(a, 0)]))


# ------------------------------------------------------------------------------- well formed


def _problem(func: r.Function | IRModule) -> str:
    found = analysis.problems(func)
    assert not analysis.well_formed(func)
    with pytest.raises(IRError, match="not well formed"):
        analysis.assert_well_formed(func)
    return "\n".join(found)


def test_well_formed_finds_what_is_wrong() -> None:
    x, y, d = r.Var("x", tensor(2)), r.Var("y", tensor(2)), r.DataflowVar("d", tensor(2))
    bb = BlockBuilder()
    call = bb.normalize(op.add(x, x))
    loud = bb.normalize(op.print(x))

    def body(*bindings: r.VarBinding | r.MatchCast, out: Any = x, flow: bool = False) -> r.Function:
        block = (r.DataflowBlock if flow else r.BindingBlock)(bindings)
        return r.Function([x], r.SeqExpr((block,), out), tensor(2))

    assert "the variable y is used, but is not defined" in _problem(body(out=y))
    assert "is defined twice" in _problem(body(r.VarBinding(y, call), r.VarBinding(y, call)))
    assert "the dataflow variable d is defined outside" in _problem(body(r.VarBinding(d, call)))
    assert "the variable d is used, but is not seen here" in _problem(body(r.VarBinding(d, call), out=d, flow=True))
    assert "which has no name" in _problem(body(r.VarBinding(y, op.add(op.add(x, x), x))))
    assert "it has no StructInfo" in _problem(body(r.VarBinding(y, op.add(x, x))))
    assert "may have a side effect, but stands in a pure function" in _problem(body(r.VarBinding(r.Var("p"), loud)))
    assert "stands in a dataflow block" in _problem(body(r.VarBinding(r.DataflowVar("p"), loud), flow=True))
    assert "but the variable says" in _problem(body(r.VarBinding(r.Var("z", tensor(3)), call)))
    assert "mentions the dimension k" in _problem(body(r.VarBinding(r.Var("z", tensor(K)), call)))
    assert "the function has no body" in _problem(r.Function.create_empty([x], tensor(2)))
    assert "is a dataflow variable" in _problem(r.Function([d], d))
    nobody = r.Call(Op.register("relax.nobody"), (x,))
    assert "no graph operator relax.nobody" in _problem(body(r.VarBinding(y, nobody)))
    module = IRModule({"main": body(r.VarBinding(y, r.Call(GlobalVar("g"), (x,))))})
    assert "main: the function g is used, but the module has none" in _problem(module)
    named = IRModule({"main": r.Function([x], x, attrs={"global_symbol": "other"})})
    assert "its global_symbol is 'other'" in _problem(named)
    wrong = r.Function([x], r.SeqExpr((), x), tensor(3))
    assert "but says" in _problem(wrong)


def test_well_formed_functions() -> None:
    module, func, _, _ = chain()
    assert analysis.well_formed(module)
    assert analysis.problems(func) == []
    x, c = r.Var("x", tensor(2)), r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]
    nested = r.Function([x], r.SeqExpr((), op.add(x, x)), tensor(2))
    assert analysis.well_formed(nested, check_struct_info=False) is False
    bb = BlockBuilder()
    with bb.function("main", [x, c], pure=False):
        bb.emit(op.print(x))
        bb.emit_func_output(bb.emit(r.If(c, op.add(x, x), x)))  # type: ignore[arg-type]
    assert analysis.problems(bb.get()) == []


# --------------------------------------------------------------------------------- rewriting


def test_rewriting_never_changes_what_it_was_given() -> None:
    module, func, block, v = chain()
    before = repr(func)
    rewrite = DataflowBlockRewrite(block, func)
    rewrite.add(op.subtract(v["a"], v["x"]), "diff", is_dfvar=True)
    rewrite.add(op.add(v["a"], op.nn.relu(v["a"])))
    rewrite.add(op.add(v["a"], v["a"]))
    names = [b.var.name_hint for b in rewrite.mutated_dfb().bindings]
    assert names == ["a", "dead", "unused", "y", "diff", "lv", "tmp0", "tmp1"]
    kinds = [isinstance(b.var, r.DataflowVar) for b in rewrite.mutated_dfb().bindings]
    assert kinds == [True, True, True, False, True, True, False, False]
    new = rewrite.mutate_irmodule(module)
    assert new["main"] is not func
    assert module["main"] is func
    assert repr(func) == before
    assert analysis.problems(new) == []


def test_replacing_and_removing() -> None:
    module, func, block, v = chain()
    rewrite = DataflowBlockRewrite(block, func)
    with pytest.raises(TunefarmError, match=r"the variable dead is used, so it cannot be removed"):
        rewrite.remove_unused(v["dead"])
    rewrite.remove_unused(v["unused"])
    rewrite.remove_unused(v["dead"])
    stranger = r.Var("stranger", tensor(2))
    rewrite.remove_unused(stranger, allow_undef=True)
    with pytest.raises(TunefarmError, match="does not define the variable stranger"):
        rewrite.remove_unused(stranger)
    with pytest.raises(TunefarmError, match="is used"):
        rewrite.remove_unused(v["y"])
    rewrite.add(op.multiply(v["a"], v["x"]), "z")
    z = rewrite.mutated_dfb().bindings[-1].var
    rewrite.replace_all_uses(v["y"], z)
    rewrite.remove_unused(v["y"])
    new = rewrite.mutated_root_fn()
    assert new.body.body is z
    assert analysis.problems(new) == []
    assert run(new, np.array([2, 3], "float32")).tolist() == [8, 18]
    assert run(module, np.array([2, 3], "float32")).tolist() == [4, 6]
    with pytest.raises(IRError, match="no variable"):
        rewrite.replace_all_uses(op.add(z, z), z)  # type: ignore[arg-type]


def test_removing_all_that_is_unused() -> None:
    _, func, block, v = chain()
    rewrite = DataflowBlockRewrite(block, func)
    rewrite.remove_all_unused()
    assert [b.var for b in rewrite.mutated_dfb().bindings] == [v["a"], v["y"]]


def test_rewriters_refuse_strangers() -> None:
    module, func, block, _ = chain()
    _, other, _, _ = chain()
    with pytest.raises(IRError, match="none of the blocks of the function"):
        DataflowBlockRewrite(block, other)
    with pytest.raises(IRError, match="no function with a body"):
        DataflowBlockRewrite(block, 3)  # type: ignore[arg-type]
    rewrite = DataflowBlockRewrite(block, func)
    with pytest.raises(IRError, match="does not have the function"):
        rewrite.mutate_irmodule(IRModule({"main": other}))
    assert rewrite.mutate_irmodule(module)["main"] is not func
    assert r.TupleStructInfo(()) != tensor(2)
