"""The document of TVM's relax namespace, sentence by sentence: nodes, struct info, calls and rewriting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import relax, te, tir
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

Tensor = relax.TensorStructInfo
F32 = Tensor((2, 3), "float32")


def test_identifiers_are_unique_and_stable() -> None:
    one, other = relax.Var("x", F32), relax.Var("x", F32)
    assert isinstance(one.vid, relax.Id)
    assert one.vid.name_hint == "x"
    assert not one.vid.same_as(other.vid)
    assert relax.Var(one.vid, F32).vid.same_as(one.vid)
    func = relax.Function([one], relax.SeqExpr([], one), F32)
    passed = relax.transform.Normalize()(tvm.IRModule.from_expr(func))
    assert passed["main"].params[0].vid.name_hint == "x"


def test_variables() -> None:
    span = tvm.ir.Span("f.py", 1)
    x = relax.Var("x", F32, span)
    assert x.struct_info == F32
    assert x.span is span
    y = relax.DataflowVar("y", F32)
    assert isinstance(y, relax.Var)
    assert not isinstance(x, relax.DataflowVar)
    assert x.name_hint == "x"


def test_bindings_blocks_and_sequences() -> None:
    x, y, z = relax.Var("x", F32), relax.DataflowVar("y", F32), relax.Var("z", F32)
    plain = relax.VarBinding(y, relax.op.exp(x))
    match = relax.MatchCast(z, x, F32)
    assert isinstance(plain, relax.Binding)
    assert isinstance(match, relax.Binding)
    assert match.struct_info == F32
    block = relax.DataflowBlock([plain])
    assert isinstance(block, relax.BindingBlock)
    assert not isinstance(relax.BindingBlock([match]), relax.DataflowBlock)
    body = relax.SeqExpr([block, relax.BindingBlock([match])], z)
    assert [len(b.bindings) for b in body.blocks] == [1, 1]
    assert body.body is z


def test_shapes_tuples_and_fields() -> None:
    n = tir.Var("n", "int64")
    shape = relax.ShapeExpr([n, 4])
    assert shape.values[0] is n
    assert shape[1] == 4
    assert len(shape) == 2
    pair = relax.Tuple([relax.Var("x", F32), shape])
    assert pair[1] is shape
    field = relax.TupleGetItem(pair, 1)
    assert (field.index, field.tuple_value) == (1, pair)
    assert [type(relax.Tuple((pair, pair)).fields[0])] == [relax.Tuple]


def test_functions() -> None:
    n = tir.Var("n", "int64")
    x = relax.Var("x", Tensor((n, 3), "float32"))
    w = relax.Var("w", Tensor((n, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        out = builder.emit(relax.op.add(x, w))
        builder.emit_func_output(out)
    func = builder.get()["main"]
    assert func.is_pure
    empty = relax.Function.create_empty([x], Tensor((n, 3), "float32"), is_pure=False)
    assert (len(empty.params), empty.is_pure) == (1, False)
    assert empty.ret_struct_info == Tensor((n, 3), "float32")
    for key in (n, "n"):
        bound = func.bind_symbolic_vars({key: 2})
        assert bound.params[0].struct_info == F32
        assert func.params[0].struct_info != F32  # a new function
    with pytest.raises((ValueError, RuntimeError, KeyError)):
        func.bind_symbolic_vars({"no_such": 2})
    value = np.ones((2, 3), "float32")
    for key in ("w", func.params[1]):
        for given in (value, tvm.nd.array(value), relax.const(value)):
            bound = func.bind_params({key: given})
            assert [p.name_hint for p in bound.params] == ["x"]
            assert bound.params[0].struct_info == F32  # n is learnt from the value
    with pytest.raises((ValueError, RuntimeError)):
        func.bind_params({"w": np.ones((2, 4), "float32")})  # not compatible
    for value, dtype in [(3, "int64"), (1.5, "float32"), (tir.const(2.5, "float32"), "float32")]:
        s = relax.Var("s", relax.PrimStructInfo(dtype))
        bound = relax.Function([s], relax.SeqExpr([], s), relax.PrimStructInfo(dtype)).bind_params({"s": value})
        assert not bound.params


def test_a_name_that_means_two_variables_is_refused() -> None:
    a, b = tir.Var("n", "int64"), tir.Var("n", "int64")
    x, y = relax.Var("x", Tensor((a,), "float32")), relax.Var("y", Tensor((b,), "float32"))
    func = relax.Function([x, y], relax.SeqExpr([], x), Tensor((a,), "float32"))
    with pytest.raises((ValueError, RuntimeError)):
        func.bind_symbolic_vars({"n": 2})
    assert func.bind_symbolic_vars({a: 2, b: 3}).params[1].struct_info == Tensor((3,), "float32")


def test_extern_functions() -> None:
    for func in (relax.ExternFunc("my.fn"), relax.extern("my.fn")):
        assert func.global_symbol == "my.fn"
        assert isinstance(func.struct_info, relax.FuncStructInfo)
    assert relax.extern("f", relax.FuncStructInfo([F32], F32)).struct_info.ret == F32


def test_calls() -> None:
    x = relax.Var("x", F32)
    call = relax.Call(tvm.ir.Op.get("relax.exp"), [x])
    assert call.op.name == "relax.exp"
    assert list(call.args) == [x]
    packed = relax.Call(relax.ExternFunc("f"), (x,), sinfo_args=[F32])
    assert list(packed.sinfo_args) == [F32]
    assert relax.Call(relax.ExternFunc("f"), [x], attrs=None, sinfo_args=(F32,)).args[0] is x


def test_conditions() -> None:
    cond, x = relax.Var("c", Tensor((), "bool")), relax.Var("x", F32)
    choice = relax.If(cond, relax.SeqExpr([], x), relax.SeqExpr([], x))
    assert choice.cond is cond
    assert choice.true_branch.body is x
    assert choice.false_branch.body is x


def test_constants() -> None:
    scalar = relax.Constant(tvm.nd.array(np.float32(3)))
    assert scalar.struct_info == Tensor((), "float32")  # scalars have no dimension
    assert relax.Constant(tvm.nd.array(np.ones((2, 3), "float32"))).struct_info == F32
    for value, dtype in [
        (1, "int32"), (1.0, "float32"), (True, "bool"), (np.float64(1), "float64"), (np.ones(2, "int8"), "int8"),
        (tvm.nd.array(np.ones(2, "float16")), "float16"), (np.int64(3), "int64"),
    ]:  # fmt: skip
        assert relax.const(value).struct_info.dtype == dtype
    assert relax.const(1, "float64").struct_info.dtype == "float64"


def test_shapes_of_expressions() -> None:
    assert [int(v) for v in relax.get_shape_of(relax.Var("x", F32)).values] == [2, 3]
    unknown = relax.get_shape_of(relax.Var("x", Tensor(ndim=2)))
    assert isinstance(unknown, relax.Call)
    assert unknown.op.name == "relax.shape_of"
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        relax.get_shape_of(relax.Var("s", relax.ShapeStructInfo([2])))


def test_types() -> None:
    assert isinstance(relax.ObjectType(), tvm.ir.Type)
    assert relax.ShapeType(3).ndim == 3
    assert relax.ShapeType().ndim == -1
    tensor = relax.TensorType()
    assert (tensor.ndim, tensor.dtype) == (-1, "float32")
    assert relax.TensorType(2, "int8").ndim == 2


@I.ir_module
class Kernels:
    @T.prim_func
    def twice(a: T.handle, b: T.handle, n: T.int64):
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("twice"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * T.float32(2)

    @T.prim_func
    def bump(a: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("bump"):
                vi = T.axis.spatial(4, i)
                a[vi] = a[vi] + T.float32(1)

    @T.prim_func
    def halves(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("halves"):
                vi = T.axis.spatial(4, i)
                b[vi] = a[vi] * T.float32(0.5)
                c[vi] = a[vi] * T.float32(0.25)


V4 = Tensor((4,), "float32")


def _module(emit: Any, count: int = 1) -> Any:
    builder = relax.BlockBuilder(Kernels)
    params = [relax.Var(f"x{i}", V4) for i in range(count)]
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(emit(Kernels.get_global_var, *params))
        builder.emit_func_output(out)
    return builder.get()


def run(emit: Any, *inputs: Any) -> Any:
    code = relax.build(_module(emit, len(inputs)), "llvm")
    return relax.VirtualMachine(code, tvm.cpu())["main"](*map(tvm.nd.array, inputs))


VALUE = np.arange(4, dtype="float32")


def test_calls_of_kernels() -> None:
    out = run(lambda gvar, x: relax.call_tir(gvar("twice"), x, V4, tir_vars=relax.ShapeExpr([4])), VALUE)
    np.testing.assert_allclose(out.numpy(), 2 * VALUE)
    first, second = run(lambda gvar, x: relax.call_tir(gvar("halves"), relax.Tuple([x]), [V4, V4]), VALUE)
    np.testing.assert_allclose(first.numpy(), VALUE / 2)
    np.testing.assert_allclose(second.numpy(), VALUE / 4)
    call = relax.call_tir(Kernels.get_global_var("twice"), [relax.Var("x", V4)], V4, tir_vars=[tir.IntImm("int64", 4)])
    assert (call.op.name, len(call.args)) == ("relax.call_tir", 3)
    assert list(call.sinfo_args) == [V4]


def test_calls_of_kernels_in_place() -> None:
    out = run(lambda gvar, x: relax.call_tir_inplace(gvar("bump"), (relax.op.exp(x),), 0, V4), VALUE)
    np.testing.assert_allclose(out.numpy(), np.exp(VALUE) + 1, rtol=1e-6)
    gvar = Kernels.get_global_var("halves")
    x, y = relax.Var("x", V4), relax.Var("y", V4)
    call = relax.call_tir_inplace(gvar, (x, y), [1, -1], [V4, V4])
    assert [int(i) for i in call.attrs.inplace_indices] == [1, -1]
    assert [int(i) for i in relax.call_tir_inplace(gvar, (x, y), 1, V4).attrs.inplace_indices] == [1]
    with pytest.raises((ValueError, RuntimeError)):
        relax.BlockBuilder().normalize(relax.call_tir_inplace(gvar, (x, y), [-1, -1], [V4, V4]))


def test_calls_of_packed_functions_that_are_pure() -> None:
    tvm.register_func("seed.twice", lambda a: tvm.nd.array(a.numpy() * 2), override=True)
    for func in ("seed.twice", relax.ExternFunc("seed.twice")):
        out = run(lambda gvar, x, func=func: relax.call_pure_packed(func, x, sinfo_args=V4), VALUE)
        np.testing.assert_allclose(out.numpy(), 2 * VALUE)
    call = relax.call_pure_packed("seed.twice", relax.Var("x", V4), sinfo_args=[V4])
    assert call.op.name == "relax.call_pure_packed"
    assert relax.analysis.contains_impure_call(relax.Function([], relax.SeqExpr([], call), V4)) is False


def test_calls_that_write_into_their_result() -> None:
    tvm.register_func("seed.store", lambda a, b: b.copyfrom(a.numpy() + 5) and None, override=True)
    for func in ("seed.store", relax.ExternFunc("seed.store")):
        out = run(lambda gvar, x, func=func: relax.call_dps_packed(func, relax.Tuple([x]), V4), VALUE)
        np.testing.assert_allclose(out.numpy(), VALUE + 5)


def test_a_gradient_of_ones_own() -> None:
    def grad(output_grad: Any, x: Any, k: float = 1.0) -> Any:
        return te.compute((4,), lambda i: output_grad[i] * tir.const(float(k), "float32"), name="grad")

    relax.training.utils.register_te_gradient("seed.grad")(grad)

    @I.ir_module
    class Model:
        @T.prim_func
        def square(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
            for i in range(T.int64(4)):
                with T.block("square"):
                    vi = T.axis.spatial(T.int64(4), i)
                    b[vi] = a[vi] * a[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((), "float32"):
            with R.dataflow():
                y = R.call_tir_with_grad(
                    Model.square, (x,), out_sinfo=R.Tensor((4,), "float32"), te_grad_name="seed.grad",
                    te_grad_kwargs={"k": 7.0},
                )  # fmt: skip
                s = R.sum(y)
                R.output(s)
            return s

    derived = relax.transform.Gradient("main")(Model)
    machine = relax.VirtualMachine(relax.build(derived, "llvm"), tvm.cpu())
    value, (slope,) = machine["main_adjoint"](tvm.nd.array(VALUE))
    assert float(value.numpy()) == (VALUE**2).sum()
    np.testing.assert_allclose(slope.numpy(), np.full(4, 7.0))
    gvar = Kernels.get_global_var("twice")
    call = relax.call_tir_with_grad(gvar, (relax.Var("x", V4),), V4, te_grad_name="seed.grad")
    assert call.attrs.te_grad_name == "seed.grad"
    with pytest.raises(TypeError):
        relax.call_tir_with_grad(gvar, (relax.Var("x", V4),), V4)


def test_struct_info() -> None:
    info = relax.StructInfo
    n = tir.Var("n", "int64")
    kinds = [
        relax.PrimStructInfo("int64"), relax.PrimStructInfo(value=n), relax.ShapeStructInfo([n, 2]),
        relax.ShapeStructInfo(ndim=2), Tensor((n,), "int8"), Tensor(ndim=3), relax.TupleStructInfo([F32, F32]),
        relax.FuncStructInfo([F32], F32), relax.ObjectStructInfo(),
    ]  # fmt: skip
    assert all(isinstance(kind, info) for kind in kinds)
    assert kinds[4].same_as(Tensor((n,), "int8"))  # by structure
    assert not kinds[4].same_as(Tensor((n,), "int16"))
    assert Tensor(ndim=2).is_base_of(F32)
    assert not F32.is_base_of(Tensor(ndim=2))
    assert all(relax.ObjectStructInfo().is_base_of(kind) for kind in kinds)
    assert relax.PrimStructInfo(value=3).dtype == "int64"
    for wrong in (
        lambda: relax.ShapeStructInfo([2], ndim=3),
        lambda: relax.ShapeStructInfo([2], ndim=1),
        lambda: Tensor((2,), ndim=3),
        lambda: Tensor((2,), ndim=1),
        lambda: relax.FuncStructInfo.opaque_func(ret=F32, derive_func=lambda call, builder: F32),
    ):
        with pytest.raises(ValueError, match=r"both|values or ndim"):
            wrong()
    assert Tensor().dtype == "float32"
    assert Tensor((2,), "float32", tvm.ir.VDevice("llvm")).vdevice.target.kind.name == "llvm"
    assert Tensor(relax.ShapeExpr([2]), "float32").ndim == 1
    assert relax.FuncStructInfo([F32], F32).purity
    opaque = relax.FuncStructInfo.opaque_func(ret=F32)
    assert (opaque.purity, opaque.ret, opaque.params) == (False, F32, None)
    tvm.register_func("seed.derive", lambda call, builder: Tensor((5,), "int8"), override=True)
    for derive in ("seed.derive", tvm.ir.EnvFunc.get("seed.derive")):
        derived = relax.ExternFunc("f", relax.FuncStructInfo.opaque_func(derive_func=derive))
        call = relax.BlockBuilder().normalize(relax.Call(derived, [relax.Var("x", F32)]))
        assert call.struct_info == Tensor((5,), "int8")
    with pytest.raises(ValueError, match="no function"):
        relax.FuncStructInfo.opaque_func(derive_func="seed.no_such")


def test_values_as_expressions() -> None:
    x = relax.Var("x", F32)
    assert relax.utils.convert_to_expr(x) is x
    assert isinstance(relax.convert_to_expr(tir.IntImm("int64", 3)), relax.PrimValue)
    assert isinstance(relax.convert_to_expr(tir.Var("n", "int64")), relax.PrimValue)
    for text in ("text", tvm.runtime.String("text")):
        assert relax.convert_to_expr(text).value == "text"
    for many in ([x, x], (x, "a")):
        assert isinstance(relax.convert_to_expr(many), relax.Tuple)
    with pytest.raises(TypeError, match="StringImm"):
        relax.convert_to_expr(tir.StringImm("a"))
    with pytest.raises(TypeError):
        relax.convert_to_expr(object())


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            R.negative(x)
            c = R.add(a, a)
            R.output(c)
        return c


def test_rewriting_a_block() -> None:
    func = Chain["main"]
    block = func.body.blocks[0]
    a, b, _c = (binding.var for binding in block.bindings)
    rewrite = relax.DataflowBlockRewrite(block, func)
    rewrite.replace_all_uses(a, b)
    assert rewrite.mutated_dfb().bindings[2].value.args[0].same_as(b)
    assert func.body.blocks[0].bindings[2].value.args[0].same_as(a)  # nothing is changed in place
    rewrite.remove_unused(a)
    assert len(rewrite.mutated_dfb().bindings) == 2
    with pytest.raises(tvm.TVMError):
        rewrite.remove_unused(b)  # is used
    with pytest.raises(tvm.TVMError):
        rewrite.remove_unused(relax.DataflowVar("z", F32))
    rewrite.remove_unused(relax.DataflowVar("z", F32), allow_undef=True)
    rewrite.add(relax.op.abs(func.params[1]))
    rewrite.add(relax.op.abs(func.params[1]), is_dfvar=True)
    rewrite.add(relax.op.abs(func.params[1]), name="mine", is_dfvar=True)
    added = [binding.var for binding in rewrite.mutated_dfb().bindings[2:]]
    assert all(var.name_hint.startswith("tmp") for var in added[:2])
    assert added[0].name_hint != added[1].name_hint
    assert added[2].name_hint == "mine"
    assert [isinstance(var, relax.DataflowVar) for var in added] == [False, True, True]
    changed = rewrite.mutate_irmodule(Chain)
    tvm.ir.assert_structural_equal(changed["main"], rewrite.mutated_root_fn().with_attr("global_symbol", "main"))
    assert len(Chain["main"].body.blocks[0].bindings) == 3
    built = relax.VirtualMachine(relax.build(changed, "llvm"), tvm.cpu())
    value = np.ones((2, 3), "float32")
    np.testing.assert_allclose(built["main"](tvm.nd.array(value), tvm.nd.array(value)).numpy(), -2 * value)
