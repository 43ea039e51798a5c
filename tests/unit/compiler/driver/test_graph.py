"""`relax.build`: from graphs to executables, which compute what the interpreter does."""

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, CodegenError
from compiler.ir.base import GlobalVar
from compiler.relax.interp import run
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op

N, M = tir.Var("n", "int64"), tir.Var("m", "int64")


def data(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


MODES = ("bytecode", "compiled")


@pytest.fixture(params=MODES, autouse=True)
def mode(request: Any) -> str:
    """Every test runs bytecode, and machine code where there can be any."""
    global exec_mode
    exec_mode = str(request.param)
    return exec_mode


exec_mode = "bytecode"


def machine(mod: Any, **options: Any) -> relax.VirtualMachine:
    return relax.VirtualMachine(relax.build(mod, "llvm", exec_mode=exec_mode, **options), tvm.cpu())


def check(mod: Any, *args: Any) -> Any:
    """The machine gives what the interpreter gives."""
    wanted, got = run(mod, *args), machine(mod)["main"](*args)
    for a, b in zip(*([x] if not isinstance(x, tuple) else x for x in (wanted, got))):
        np.testing.assert_allclose(np.asarray(b.numpy() if hasattr(b, "numpy") else b), a, rtol=1e-5, atol=1e-5)
    return got


def layer() -> Any:
    bb = BlockBuilder()
    x, w = Var("x", tensor(N, 4)), Var("w", tensor(4, 8))
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y = bb.emit(op.nn.relu(op.matmul(x, w)))
            both = bb.emit(op.concat([y, y], axis=0))
            out = bb.emit_output((both, op.add(op.reshape(both, (-1,)), relax.const(1.0))))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize("rows", [1, 3, 0])
def test_symbolic_dimensions_follow_from_the_arguments(rows: int) -> None:
    check(layer(), data(rows, 4), data(4, 8))


def test_wrong_arguments_are_named() -> None:
    vm = machine(layer())
    with pytest.raises(ArgumentError, match="main: argument 'w' has shape"):
        vm["main"](data(3, 4), data(3, 8))


def test_params_become_constants() -> None:
    mod, w = layer(), data(4, 8)
    vm = machine(mod, params={"w": w})
    both, _ = vm["main"](data(2, 4))
    np.testing.assert_allclose(both.numpy(), run(mod, data(2, 4), w)[0], rtol=1e-5, atol=1e-5)


def test_constants_of_any_size_are_folded() -> None:
    w = data(40, 30)
    bb = BlockBuilder()
    x = Var("x", tensor(N, 40))
    with bb.function("main", [x]):
        with bb.dataflow():
            turned = bb.emit(op.permute_dims(op.permute_dims(relax.const(w))))
            out = bb.emit_output(op.matmul(x, turned))
        bb.emit_func_output(out)
    executable = relax.build(bb.get(), "llvm")
    assert "permute_dims" not in executable.as_text()
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](data(2, 40))
    np.testing.assert_allclose(got.numpy(), data(2, 40) @ w, rtol=1e-4, atol=1e-4)


def test_equal_kernels_are_made_once() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(4, 4))
    with bb.function("main", [x]):
        y = bb.emit(op.matmul(op.matmul(x, x), x))
        bb.emit_func_output(bb.emit(op.matmul(y, bb.emit(op.reshape(y, (4, 4))))))
    executable = relax.build(bb.get(), "llvm")
    assert sum(name.startswith("matmul") for name in executable.as_text().split()) == 3
    assert "matmul1" not in executable.as_text()


def test_conditions() -> None:
    bb = BlockBuilder()
    c, x = Var("c", tensor(dtype="bool")), Var("x", tensor(3))
    with bb.function("main", [c, x]):
        yes, no = relax.SeqExpr((), op.add(x, x)), relax.SeqExpr((), op.multiply(x, x))
        bb.emit_func_output(bb.emit(op.add(bb.emit(relax.If(c, yes, no)), x)))
    for value in (True, False):
        check(bb.get(), np.array(value), data(3))


def test_functions_call_each_other() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(N))
    with bb.function("twice", [x]):
        helper = bb.emit_func_output(bb.emit(op.add(x, x)))
    y = Var("y", tensor(M))
    with bb.function("main", [y]):
        bb.emit_func_output(bb.emit(relax.Call(helper, [bb.emit(relax.Call(helper, [y]))])))
    check(bb.get(), data(5))


def test_match_cast_names_dimensions_and_checks() -> None:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo(None, "float32", ndim=2))
    with bb.function("main", [x]):
        y = bb.match_cast(x, tensor(N, N * 2), "y")
        bb.emit_func_output(bb.emit(op.reshape(bb.emit(op.add(y, y)), (N * 2, N))))
    check(bb.get(), data(2, 4))
    with pytest.raises(ArgumentError, match=r"the value of 'y': dimension 1 of the shape \(2, 3\) is 3, and must be 4"):
        machine(bb.get())["main"](data(2, 3))
    with pytest.raises(ArgumentError, match="main: argument 'x' has dtype float64"):
        machine(bb.get())["main"](data(2, 4).astype("float64"))


def test_tuples_go_in_and_out() -> None:
    bb = BlockBuilder()
    pair = Var("pair", relax.TupleStructInfo([tensor(N), tensor(N, 2)]))
    with bb.function("main", [pair]):
        first = bb.emit(relax.TupleGetItem(pair, 0))
        second = bb.emit(relax.TupleGetItem(pair, 1))
        total = bb.emit(op.sum(second, axis=1))
        bb.emit_func_output(relax.Tuple((bb.emit(op.add(first, total)), first)))
    check(bb.get(), (data(3), data(3, 2)))


def test_functions_of_the_runtime_are_called(packed: str) -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(3))
    with bb.function("main", [x]):
        y = bb.emit(relax.call_pure_packed(packed, x, sinfo_args=tensor(3)))
        bb.emit_func_output(bb.emit(op.add(y, x)))
    got = machine(bb.get())["main"](data(3))
    np.testing.assert_allclose(got.numpy(), data(3) * 2 + 1, rtol=1e-6)


def test_kernels_of_ones_own_and_scalars() -> None:
    a = tir.Var("k", "int64")
    bb = BlockBuilder()
    x = Var("x", tensor(N * 2))
    s = Var("s", relax.ShapeStructInfo([N]))
    with bb.function("main", [x, s]):
        y = bb.emit(op.add(x, x))
        bb.emit_func_output(bb.emit(op.reshape(y, (2, N))))
    assert a.name == "k"
    got = machine(bb.get())["main"](data(6), tvm.runtime.ShapeTuple([3]))
    np.testing.assert_allclose(got.numpy(), (data(6) * 2).reshape(2, 3), rtol=1e-6)


def test_compile_takes_graphs_and_kernels() -> None:
    assert isinstance(tvm.compile(layer(), "llvm"), relax.VMExecutable)
    from tunefarm import te

    A = te.placeholder((4,), "float32", "A")
    func = te.create_prim_func([A, te.compute((4,), lambda i: A[i] * 2, "B")])
    assert tvm.compile(func.with_attr("global_symbol", "twice"), "llvm").get_function_list() == ["twice"]
    module = tvm.compile(tvm.IRModule({"double": func}), "llvm")
    out = tvm.nd.array(np.zeros(4, "float32"))
    module["double"](tvm.nd.array(data(4)), out)
    np.testing.assert_allclose(out.numpy(), data(4) * 2)


def test_what_is_not_lowered_is_named() -> None:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo(None, "float32", ndim=1))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.exp(x)))
    with pytest.raises(CodegenError, match=r"main: no bytecode can be written for the operator relax\.exp"):
        relax.build(bb.get(), "llvm")


@pytest.mark.parametrize(
    ("mod", "options", "message"),
    [
        (3, {}, "expected an IRModule or a graph function"),
        (None, {"exec_mode": "fast"}, "exec_mode is 'fast'"),
        (None, {"relax_pipeline": "fastest"}, "there is no pipeline 'fastest'"),
        (None, {"params": {"q": 1}}, "no parameter 'q'"),
    ],
)
def test_bad_builds_are_refused(mod: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        relax.build(layer() if mod is None else mod, "llvm", **options)


def test_executables_are_saved_and_loaded(tmp_path: Any) -> None:
    path = str(tmp_path / "model.tunefarm")
    relax.build(layer(), "llvm").export_library(path)
    vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    both, _ = vm["main"](data(2, 4), data(4, 8))
    assert both.shape == (4, 8)


def test_lowered_functions_have_names_of_their_own() -> None:
    lowered = relax.get_pipeline("default")(layer())
    assert all(func.attrs["global_symbol"] == name.name_hint for name, func in lowered.items())
    assert GlobalVar("fused_matmul_relu_concat") in lowered


# ---------------------------------------------------------------------------------- closures


def inner_function(captures: bool) -> Any:
    """A function inside of "main" that is called, with or without a value from around."""
    bb = BlockBuilder()
    x, y = Var("x", tensor(N, 2)), Var("y", tensor(N, 2))
    a = Var("a", tensor(N, 2))
    inside = BlockBuilder()
    with inside.function("inner", [a, x]):
        inside.emit_func_output(inside.emit(op.add(a, x if captures else a)))
    body: Any = inside.get()["inner"]
    with bb.function("main", [x, y]):
        inner = bb.emit(relax.Function([a], body.body, tensor(N, 2)), "inner")
        bb.emit_func_output(bb.emit(op.multiply(bb.emit(relax.Call(inner, [y])), x)))
    return bb.get()


@pytest.mark.parametrize("captures", [True, False])
def test_functions_inside_of_functions_are_called(captures: bool) -> None:
    mod = inner_function(captures)
    check(mod, data(3, 2), data(3, 2) + 1)
    lifted = relax.transform.LambdaLift()(mod)
    np.testing.assert_allclose(run(lifted, data(3, 2), data(3, 2)), run(mod, data(3, 2), data(3, 2)))
    assert "main_inner" in {name.name_hint for name in lifted}


def test_closures_are_returned_and_invoked() -> None:
    bb = BlockBuilder()
    x, a = Var("x", tensor(3)), Var("a", tensor(3))
    inside = BlockBuilder()
    with inside.function("inner", [a, x]):
        inside.emit_func_output(inside.emit(op.add(a, x)))
    body: Any = inside.get()["inner"]
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.Function([a], body.body, tensor(3)), "inner"))
    vm = machine(bb.get())
    closure = vm["main"](data(3))
    np.testing.assert_allclose(vm.invoke_closure(closure, data(3)).numpy(), data(3) * 2)


def test_functions_inside_of_functions_may_call_themselves() -> None:
    scalar = tensor()
    x, limit, a = Var("x", scalar), Var("limit", scalar), Var("a", scalar)
    again = Var("again", relax.FuncStructInfo([scalar], scalar))
    inside = BlockBuilder()
    with inside.function("inner", [a, limit, again]):
        cond = inside.emit(op.less(a, limit))
        more = relax.SeqExpr((), relax.Call(again, [op.add(a, relax.const(1.0))]))
        inside.emit_func_output(inside.emit(relax.If(cond, more, relax.SeqExpr((), a))))
    body: Any = inside.get()["inner"]
    bb = BlockBuilder()
    with bb.function("main", [x, limit]):
        bb.emit_normalized(relax.VarBinding(again, relax.Function([a], body.body, scalar)))
        bb.emit_func_output(bb.emit(relax.Call(again, [x])))
    got = check(bb.get(), np.float32(0.5).reshape(()), np.float32(20).reshape(()))
    assert got.numpy() == np.float32(20.5)


def test_registers_are_used_again() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(4))
    with bb.function("main", [x]):
        y: Any = x
        for step in range(40):
            y = bb.emit(op.add(op.sin(y), relax.const(float(step))))
        bb.emit_func_output(y)
    executable = relax.build(bb.get(), "llvm")
    function = executable.program.function("main")
    assert function is not None
    assert function.registers < 10
    check(bb.get(), data(4))
