"""Closures, devices, workers, views of memory: StructInfo, what they become, interpreted and on the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import IRError
from compiler.relax.interp import run
from compiler.runtime.core import registry
from tests.kit.compiler.relax_ops import check_text
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, ObjectStructInfo, PrimValue, TensorStructInfo, Var, op, transform

N = tir.Var("n", "int64")
X = np.arange(24, dtype="float32").reshape(4, 6)


def tensor(*shape: Any, dtype: str = "float32", vdevice: Any = None) -> TensorStructInfo:
    return TensorStructInfo(shape, dtype, vdevice)


def var(*shape: Any, dtype: str = "float32") -> Var:
    return Var("x", tensor(*shape, dtype=dtype))


def info(call: Any) -> Any:
    return BlockBuilder().normalize(call).struct_info


def function(make: Any, *params: Var, pure: bool = True) -> Any:
    bb = BlockBuilder()
    with bb.function("main", list(params), pure=pure):
        bb.emit_func_output(bb.emit(make(bb, *params) if pure is False else make(*params)))
    return bb.get()


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda x: op.memory.view(x, (6, 4)), X.reshape(6, 4)),
        (lambda x: op.memory.view(x, dtype="int32"), X.view("int32")),
        (lambda x: op.memory.view(x, (2, 3), relative_byte_offset=16), X.ravel()[4:10].reshape(2, 3)),
        (lambda x: op.memory.view(x, (48,), "float16"), X.view("float16").ravel()),
        (op.memory.ensure_zero_offset, X),
        (lambda x: op.to_vdevice(x, "llvm:0"), X),
        (lambda x: op.to_vdevice(x, tvm.cpu()), X),
        (lambda x: op.hint_on_device(x, tvm.cpu()), X),
        (op.builtin.stop_lift_params, X),
        (lambda x: op.wrap_param(x, "int32"), X.astype("int32")),
        (op.wrap_param, X),
    ],
)
def test_interpreted_and_on_the_machine(make: Any, wanted: Any) -> None:
    x = var(N, 6) if make is op.memory.ensure_zero_offset else var(4, 6)
    mod = function(make, x)
    check_text(make, [x])
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    for found in (run(mod, X), machine["main"](tvm.nd.array(X)).numpy()):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("invoke", [op.invoke_closure, op.invoke_pure_closure])
def test_closures_are_invoked(invoke: Any) -> None:
    bb = BlockBuilder()
    a, b = var(4, 6), Var("b", tensor(4, 6))
    with bb.function("inner", [a, b], private=True):
        inner = bb.emit_func_output(bb.emit(op.subtract(a, b)))
    x = var(4, 6)
    with bb.function("main", [x], pure=invoke is op.invoke_pure_closure):
        closure = bb.emit(op.make_closure(inner, [bb.emit(op.multiply(x, x))]))
        bb.emit_func_output(bb.emit(invoke(closure, [x], tensor(4, 6))))
    mod = bb.get()
    machine = relax.VirtualMachine(relax.build(mod, "llvm"), tvm.cpu())
    for found in (run(mod, X), machine["main"](tvm.nd.array(X)).numpy()):
        np.testing.assert_array_equal(found, X - X * X)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda: op.to_vdevice(var(N, 4), "cuda:1"), tensor(N, 4, vdevice="cuda:1")),
        (lambda: op.hint_on_device(var(N, 4), "cuda:1"), tensor(N, 4)),
        (lambda: op.ccl.allreduce(var(N, 4), "max"), tensor(N, 4)),
        (lambda: op.ccl.allgather(var(N, 4), 2), tensor(N * 2, 4)),
        (lambda: op.ccl.broadcast_from_worker0(var(N, 4)), tensor(N, 4)),
        (lambda: op.ccl.scatter_from_worker0(var(N, 4), 2, 1), tensor(N, 2)),
        (lambda: op.memory.view(var(4, 6), (3, 4), "int64"), tensor(3, 4, dtype="int64")),
        (lambda: op.null_value(), ObjectStructInfo()),
        (lambda: op.builtin.alloc_tensor(relax.ShapeExpr([2, 3]), "int8", 0, "global"), tensor(2, 3, dtype="int8")),
        (lambda: op.invoke_closure(Var("f", ObjectStructInfo()), [], [tensor(2)]), tensor(2)),
        (lambda: op.invoke_closure(Var("f", ObjectStructInfo()), [], []), ObjectStructInfo()),
        (lambda: op.assert_op(True, [var(2), var(3)], "{} {}"), relax.TupleStructInfo(())),
    ],
)
def test_what_is_known_of_results(make: Any, wanted: Any) -> None:
    assert info(make()) == wanted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: op.ccl.allreduce(var(4), "mean"), "op_type is 'mean', it must be one of sum, prod"),
        (lambda: op.ccl.allgather(var(4), 0), "num_workers is 0, it must be positive"),
        (lambda: op.ccl.scatter_from_worker0(var(3), 2), "num_workers is 2, which does not divide dimension 0"),
        (lambda: op.memory.view(var(4), (5,)), "the view of 20 bytes from byte 0 on leaves the 16 bytes of data"),
        (lambda: op.memory.view(var(4), (3,), None, 8), "the view of 12 bytes from byte 8 on leaves the 16 bytes"),
        (lambda: op.to_vdevice(var(4), None), "dst_vdevice must be a device"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(IRError) as error:
        info(make())
    assert message in str(error.value)


def test_work_between_workers_is_that_of_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_functions", dict(registry._functions))  # the library of others stays

    def worker(x: Any) -> Any:
        bb = BlockBuilder.current()
        assert bb is not None
        summed = bb.emit(op.ccl.allreduce(x, "sum"))
        parts = bb.emit(op.ccl.scatter_from_worker0(bb.emit(op.ccl.broadcast_from_worker0(summed)), 2, 1))
        return op.ccl.allgather(parts, 2)

    mod = transform.LegalizeOps()(function(worker, var(4, 6)))
    called: list[str] = []

    def register(name: str, work: Any) -> None:
        def packed(*args: Any) -> None:
            called.append(name)
            work(*args)

        tvm.register_func(f"runtime.disco.{name}", packed, override=True)

    def written(out: Any, value: Any) -> None:
        (out.copyfrom if hasattr(out, "copyfrom") else lambda v: np.copyto(out, v))(value)

    def values(x: Any) -> Any:
        return x.numpy() if hasattr(x, "numpy") else x

    register("allreduce", lambda x, code, group, out: written(out, values(x) * 2))
    register("broadcast_from_worker0", lambda x, group, out: written(out, values(x)))
    register("scatter_from_worker0", lambda x, group, out: written(out, values(x)[0]))
    register("allgather", lambda x, group, out: written(out, np.concatenate([values(x), values(x)])))
    wanted = np.concatenate([2 * X[:, :3]] * 2)
    np.testing.assert_array_equal(run(mod, X), wanted)
    machine = relax.VirtualMachine(relax.build(function(worker, var(4, 6)), "llvm"), tvm.cpu())
    np.testing.assert_array_equal(machine["main"](tvm.nd.array(X)).numpy(), wanted)
    assert called == ["allreduce", "broadcast_from_worker0", "scatter_from_worker0", "allgather"] * 2


def test_values_of_a_message_come_as_a_list() -> None:
    x = Var("x", relax.PrimStructInfo("int64"))
    call = op.assert_op(PrimValue(tir.const(True)), [x, x], format="{} and {}")
    assert len(call.args) == 3
    assert len(op.assert_op(True, x).args) == 2
    assert len(op.assert_op(True).args) == 1
