"""Building functions: names, normal form, scopes, kernels made of te, and how it all fails."""

import sys
from typing import Any

import numpy as np
import pytest

from compiler import topi
from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.vdevice import VDevice
from compiler.relax import nodes as r
from compiler.relax import op
from compiler.relax.analysis import assert_well_formed
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.utils import copy_with_new_vars, gen_call_tir_inputs
from compiler.te.operation import compute
from compiler.tir import nodes as n
from tests.kit.compiler.struct_info import tensor

K = n.Var("k", "int64")


def built(build: Any, *params: r.Var) -> tuple[IRModule, r.Function]:
    bb = BlockBuilder()
    with bb.function("main", list(params)):
        bb.emit_func_output(build(bb))
    module = bb.get()
    func = module["main"]
    assert isinstance(func, r.Function)
    assert_well_formed(module)
    return module, func


def test_names_and_blocks() -> None:
    bb = BlockBuilder()
    x = r.Var("x", tensor(K, 4))
    with bb.function("main", [x], attrs={"note": 1}):
        before = bb.emit(op.add(x, x))
        with bb.dataflow():
            assert BlockBuilder.current() is bb
            assert bb.current_block_is_dataflow()
            inner = [bb.emit(op.add(before, x)), bb.emit(op.add(before, x)), bb.emit(op.nn.relu(x), "act")]
            out = bb.emit_output(inner[1])
        after = bb.emit(op.multiply(out, out))
        gvar = bb.emit_func_output(after)
    assert BlockBuilder.current() is None
    assert [v.name_hint for v in (before, *inner, out, after)] == ["gv", "lv", "lv1", "act", "gv1", "gv2"]
    inside = [isinstance(v, r.DataflowVar) for v in (before, *inner, out, after)]
    assert inside == [False, True, True, True, False, False]
    func = bb.get()[gvar]
    assert isinstance(func, r.Function)
    assert [type(block) for block in func.body.blocks] == [r.BindingBlock, r.DataflowBlock, r.BindingBlock]
    assert func.attrs == {"global_symbol": "main", "note": 1}
    assert func.ret_struct_info == tensor(K, 4)
    assert gvar.struct_info_ == func.struct_info
    assert_well_formed(bb.get())


def test_nested_calls_get_names_innermost_first() -> None:
    x = r.Var("x", tensor(2, 2))
    shared = op.add(x, x)
    _, func = built(lambda bb: bb.emit(op.multiply(op.nn.relu(shared), op.subtract(shared, 1.0))), x)
    (block,) = func.body.blocks
    names = [binding.value.op.name for binding in block.bindings]  # type: ignore[attr-defined]
    assert names == ["relax.add", "relax.nn.relu", "relax.subtract", "relax.multiply"]


def test_depth_does_not_matter() -> None:
    x = r.Var("x", tensor(2))
    deep: Any = x
    for _ in range(3000):
        deep = op.add(deep, x)
    _, func = built(lambda bb: bb.emit(deep), x)
    assert len(func.body.blocks[0].bindings) == 3000


def test_normal_form_is_kept() -> None:
    x = r.Var("x", tensor(2, 3))
    _, func = built(lambda bb: bb.emit(op.nn.relu(bb.emit(op.add(x, x)))), x)
    assert BlockBuilder().normalize(func) is func


def test_tuples_and_fields() -> None:
    x = r.Var("x", tensor(2))
    _, func = built(lambda bb: bb.emit(r.Tuple((op.add(x, x), (x, op.nn.relu(x))))), x)  # type: ignore[arg-type]
    assert func.ret_struct_info == r.TupleStructInfo((tensor(2), r.TupleStructInfo((tensor(2), tensor(2)))))
    pair = r.Var("p", r.TupleStructInfo((tensor(2), tensor(3))))
    _, func = built(lambda bb: bb.emit(op.add(pair[0], r.TupleGetItem(r.Tuple((pair[1], x)), 1))), pair, x)
    assert func.ret_struct_info == tensor(2)
    _, func = built(lambda bb: [x, [x, x]], x)
    assert func.ret_struct_info == r.TupleStructInfo((tensor(2), r.TupleStructInfo((tensor(2), tensor(2)))))


def test_conditions_have_scopes_of_their_own() -> None:
    x, c = r.Var("x", r.TensorStructInfo(ndim=1)), r.Var("c", r.TensorStructInfo((), "bool"))  # type: ignore[arg-type]
    m, y = n.Var("m", "int64"), r.Var("y", tensor(3))

    def build(bb: BlockBuilder) -> Any:
        cast = r.Var("cast", tensor(m))
        branch = r.SeqExpr((r.BindingBlock((r.MatchCast(cast, x, tensor(m)),)),), op.add(cast, cast))
        return bb.emit(r.If(c, branch, op.nn.relu(y)))  # type: ignore[arg-type]

    module, func = built(build, x, c, y)
    assert func.ret_struct_info == r.TensorStructInfo(ndim=1)  # m has no name outside
    values = np.arange(4, dtype="float32")
    assert run(module, values, np.array(True), np.ones(3, "float32")).tolist() == [0, 2, 4, 6]
    assert run(module, values, np.array(False), -np.ones(3, "float32")).tolist() == [0, 0, 0]
    with pytest.raises(IRError, match="must be a bool without dimensions"):
        built(lambda bb: bb.emit(r.If(y, x, x)), x, y)  # type: ignore[arg-type]


def test_sequences_are_spliced() -> None:
    x = r.Var("x", tensor(2))
    a, b = r.DataflowVar("a", tensor(2)), r.Var("b", tensor(2))
    inner = r.DataflowBlock((r.VarBinding(a, op.add(x, x)), r.VarBinding(b, op.nn.relu(a))))
    _, func = built(lambda bb: bb.emit(r.SeqExpr((inner,), op.add(b, b))), x)
    (block,) = func.body.blocks
    assert len(block.bindings) == 4
    assert not any(isinstance(binding.var, r.DataflowVar) for binding in block.bindings)


def test_match_cast_names_dimensions() -> None:
    x, m = r.Var("x", r.TensorStructInfo(ndim=2)), n.Var("m", "int64")

    def build(bb: BlockBuilder) -> Any:
        cast = bb.match_cast(x, tensor(m, 4))
        return bb.emit(op.reshape(cast, (m * 4,)))

    module, func = built(build, x)
    assert func.ret_struct_info == r.TensorStructInfo(ndim=1)
    assert run(module, np.ones((3, 4), "float32")).shape == (12,)
    with pytest.raises(IRError, match=r"match_cast: the variable x .* never"):
        built(lambda bb: bb.match_cast(x, tensor(2, 2, 2)), x)
    bb = BlockBuilder()
    with bb.function("main", [x]):
        var = bb.match_cast(x, tensor(m, 4), "named")
        assert var.name_hint == "named"
        assert bb.lookup_binding(var) is x
        assert bb.lookup_binding(x) is None
        bb.emit_func_output(var)


def test_kernels_of_te() -> None:
    x, y = r.Var("x", tensor(K, 4)), r.Var("y", tensor(K, 4))

    def build(bb: BlockBuilder) -> Any:
        a = bb.emit_te(topi.add, x, y)
        b = bb.emit_te(topi.add, a, y)
        c = bb.emit(bb.call_te(topi.nn.relu, b, primfunc_name_hint="act", primfunc_attrs={"mine": 1}))
        return bb.emit_te(lambda t: [t, topi.add(t, t)], c)

    module, func = built(build, x, y)
    assert [g.name_hint for g in module] == ["add", "act", "te_func", "main"]  # equal kernels are one
    assert module["act"].attrs["mine"] == 1
    assert "global_symbol" not in module["add"].attrs
    assert func.ret_struct_info == r.TupleStructInfo((tensor(K, 4), tensor(K, 4)))
    a, b = np.random.rand(2, 3, 4).astype("float32")
    first, second = run(module, a, b)
    np.testing.assert_allclose(first, a + 2 * b, rtol=1e-6)
    np.testing.assert_allclose(second, 2 * a + 4 * b, rtol=1e-6)


def test_kernels_take_scalars_that_no_argument_tells() -> None:
    x, s = r.Var("x", tensor(K * 2)), r.Var("s", r.ShapeStructInfo((K,)))

    def half(data: Any, size: Any) -> Any:
        return compute((size,), lambda i: data[i] + data[i + size], name="half")

    module, func = built(lambda bb: bb.emit_te(half, x, r.PrimValue(K)), x, s)
    call = func.body.blocks[0].bindings[0].value
    assert isinstance(call, r.Call)
    assert isinstance(call.args[2], r.ShapeExpr)
    assert func.ret_struct_info == tensor(K)
    assert run(module, np.arange(6, dtype="float32"), (3,)).tolist() == [3, 5, 7]
    kernel, args, info, scalars = gen_call_tir_inputs(half, x, r.PrimValue(K))
    assert (len(kernel.params), len(args.fields), info == tensor(K), scalars is not None) == (3, 1, True, True)


def test_te_errors() -> None:
    x = r.Var("x", r.TensorStructInfo(ndim=2))
    with pytest.raises(IRError, match="whose shape is not known"):
        built(lambda bb: bb.emit_te(topi.nn.relu, x), x)
    y = r.Var("y", r.TensorStructInfo((2,), ""))  # type: ignore[arg-type]
    with pytest.raises(IRError, match="whose element type is not known"):
        built(lambda bb: bb.emit_te(topi.nn.relu, y), y)
    z = r.Var("z", r.ObjectStructInfo())
    with pytest.raises(IRError, match="te cannot take the variable z"):
        built(lambda bb: bb.emit_te(topi.nn.relu, z), z)
    w = r.Var("w", tensor(2))
    with pytest.raises(IRError, match="must return tensors"):
        built(lambda bb: bb.emit_te(lambda t: 3, w), w)
    _, func = built(lambda bb: bb.emit_te(lambda t: t, w), w)  # an argument handed back is copied
    assert func.ret_struct_info == tensor(2)


def test_kernels_with_gradients() -> None:
    x = r.Var("x", tensor(2))
    _, func = built(
        lambda bb: bb.emit_te_with_grad(topi.nn.relu, x, te_grad_name="grad.relu", te_grad_kwargs={"a": 1}), x
    )
    call = func.body.blocks[0].bindings[0].value
    assert isinstance(call, r.Call)
    assert dict(call.attrs) == {"te_grad_name": "grad.relu", "te_grad_kwargs": {"a": 1}}


def test_functions_that_call_functions() -> None:
    x = r.Var("x", tensor(K))
    bb = BlockBuilder()
    with bb.function("twice", [x], private=True):
        twice = bb.emit_func_output(bb.emit(op.add(x, x)))
    y = r.Var("y", tensor(5))
    with bb.function("main", [y]):
        out = bb.emit(r.Call(GlobalVar("twice"), (y,)))
        assert out.struct_info == tensor(5)
        bb.emit_func_output(out)
    module = bb.get()
    assert "global_symbol" not in module[twice].attrs
    assert run(module, np.ones(5, "float32")).tolist() == [2] * 5
    with pytest.raises(IRError, match="already has a function 'main'"), bb.function("main", [y]):
        pass
    with pytest.raises(IRError, match="nothing is known of the function @nobody"):
        BlockBuilder(module).normalize(r.Call(GlobalVar("nobody"), (y,)))


def test_functions_of_the_module() -> None:
    x = r.Var("x", tensor(2))
    one, two = r.Function([x], x), r.Function([r.Var("y", tensor(2))], r.const(np.ones(2, "float32")))
    bb = BlockBuilder(IRModule({"one": one}))
    assert bb.add_func(copy_with_new_vars(one), "other") == GlobalVar("one")
    added = bb.add_func(two, "one")
    assert added.name_hint == "one1"
    bb.update_func(added, one)
    assert bb.get()[added] is one
    assert bb.get_unique_name("one") == "one2"
    assert bb.get_unique_name("fresh") == "fresh"
    with pytest.raises(IRError, match="has no function 'none'"):
        bb.update_func(GlobalVar("none"), one)


def test_copies_share_nothing() -> None:
    x = r.Var("x", tensor(K, 4))
    _, func = built(lambda bb: bb.emit(op.reshape(op.add(x, x), (K * 4,))), x)
    copied = copy_with_new_vars(func)
    assert structural_equal(copied, func)
    assert copied.params[0].vid is not x.vid
    assert copied.symbolic_vars()[0] is not K


def test_testing_scope() -> None:
    bb = BlockBuilder()
    x = r.Var("x", tensor(K))
    with bb.testing_scope(def_vars=[K]):
        assert bb.emit(op.add(x, x)).struct_info == tensor(K)
    with bb.function("main", [x]):
        bb.emit_func_output(x)


def test_parameters_may_come_last() -> None:
    x = r.Var("x", tensor(2))
    bb = BlockBuilder()
    with bb.function("main"):
        bb.emit_func_output(bb.emit(op.add(x, x)), params=[x])
    assert_well_formed(bb.get())
    with pytest.raises(RuntimeError, match="given twice"), bb.function("second", [x]):
        bb.emit_func_output(x, params=[x])
    with pytest.raises(RuntimeError, match="given nowhere"), bb.function("third"):
        bb.emit_func_output(x)
    with pytest.raises(RuntimeError, match="emit_func_output must be called"), bb.function("fourth", [x]):
        bb.emit(x)


def test_misuse_names_the_line() -> None:
    bb, x = BlockBuilder(), r.Var("x", tensor(2))
    for use in (
        lambda: bb.emit(x), lambda: bb.emit_output(x), lambda: bb.emit_func_output(x),
        lambda: bb.match_cast(x, tensor(2)), lambda: bb.dataflow().__enter__(),
        lambda: bb.function("f", [3]), lambda: bb.function("f", [r.Var("y")]),
    ):  # fmt: skip
        with pytest.raises(IRError, match=r"test_block_builder\.py:\d+"):
            use()  # type: ignore[no-untyped-call]
    with pytest.raises(IRError, match="emit_output outside of a dataflow block"), bb.function("f", [x]):
        bb.emit_output(x)
    with pytest.raises(IRError, match="inside of a dataflow block"), bb.function("f", [x]), bb.dataflow():
        bb.emit_func_output(x)
    with pytest.raises(IRError, match="no block is there to bind it"):
        bb.normalize(op.add(op.add(x, x), x))
    with bb.function("f", [x]):  # a failed function leaves nothing behind
        bb.emit_func_output(x)


def _transformer(layers: int) -> IRModule:
    """Attention and a feed-forward part, symbolic in batch and sequence, as a model's graph has them."""
    batch, seq, width, heads = n.Var("b", "int64"), n.Var("s", "int64"), 64, 4
    x = r.Var("x", tensor(batch, seq, width))
    names = ("q", "k", "v", "o", "up", "down")
    sizes = ((width, width),) * 4 + ((width, width * 4), (width * 4, width))
    weights = [[r.Var(f"{name}{i}", tensor(*size)) for name, size in zip(names, sizes)] for i in range(layers)]
    bb = BlockBuilder()
    with bb.function("main", [x, *(w for layer in weights for w in layer)]):
        with bb.dataflow():
            h: Any = x
            for wq, wk, wv, wo, up, down in weights:
                parts = [
                    bb.emit(op.permute_dims(op.reshape(op.matmul(h, w), (batch, seq, heads, -1)), (0, 2, 1, 3)))
                    for w in (wq, wk, wv)
                ]
                scores = bb.emit(op.matmul(parts[0], op.permute_dims(parts[1], (0, 1, 3, 2))) * 0.25)
                mixed = bb.emit(op.matmul(op.nn.softmax(scores), parts[2]))
                joined = bb.emit(op.reshape(op.permute_dims(mixed, (0, 2, 1, 3)), (batch, seq, width)))
                h = bb.emit(h + op.matmul(joined, wo))
                h = bb.emit(h + op.matmul(op.nn.relu(op.matmul(h, up)), down))
            out = bb.emit_output(h)
        bb.emit_func_output(out)
    return bb.get()


def test_building_takes_time_by_size_only() -> None:
    """Counted in calls of functions, which no other process makes more of."""

    def calls(layers: int) -> int:
        count = 0

        def note(_frame: object, event: str, _arg: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            module = _transformer(layers)
        finally:
            sys.setprofile(None)
        func = module["main"]
        assert isinstance(func, r.Function)
        assert len(func.body.blocks[0].bindings) == layers * 22 + 1
        return count

    calls(1)  # what is remembered of the first time
    few, many = calls(6), calls(24)
    assert many < few * 4 * 1.5
    assert many < 24 * 22 * 1000  # for each binding


def test_a_transformer_is_well_formed() -> None:
    module = _transformer(2)
    assert_well_formed(module)
    func = module["main"]
    assert isinstance(func, r.Function)
    assert repr(func.ret_struct_info) == 'R.Tensor((b, s, 64), dtype="float32")'


def test_what_a_module_holds_beside_functions_is_kept() -> None:
    device = VDevice("llvm")
    kept = BlockBuilder(IRModule({}, {"who": "me"}, {"vdevice": [device]})).get()
    assert kept.global_infos == {"vdevice": [device]}
    assert kept.attrs == {"who": "me"}
