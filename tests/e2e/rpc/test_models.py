"""Whole models on a real server: called, timed and profiled there, measured in one trial; what one of them breaks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ArgumentError, ArtifactError, DeviceError
from compiler.runtime.core.module import MissingFunctionError
from rpc_server.box.server import Server
from rpc_server.client.connect import open_session
from rpc_server.errors import DeadlineExceeded, ExecutorCrashed, HandleError, OutOfMemory, SessionClosed
from rpc_server.wire.machine_messages import Action, TupleOf
from rpc_server.wire.messages import UseMachine
from rpc_server.wire.trial_messages import EvaluatorOptions, MeasureRequest
from tests.kit.compiler.struct_info import tensor
from tunefarm import relax, relay, tir
from tunefarm.contrib import graph_executor
from tunefarm.relax import BlockBuilder, Var, op

N = tir.Var("n", "int64")


def weights() -> Any:
    return np.linspace(-1, 1, 64, dtype="float32").reshape(8, 8)


def model(rows: Any = N) -> Any:
    bb = BlockBuilder()
    x, y = Var("x", tensor(rows, 8)), Var("y", tensor(rows, 8))
    with bb.function("main", [x, y]):
        with bb.dataflow():
            h = bb.emit(op.tanh(op.matmul(x, relax.const(weights()))))
            out = bb.emit_output(relax.Tuple((op.add(h, y), h)))
        bb.emit_func_output(out)
    return bb.get()


def wanted(x: Any, y: Any) -> tuple[Any, Any]:
    h = np.tanh(x @ weights())
    return h + y, h


@pytest.fixture(scope="module")
def server() -> Any:
    with Server(port=0, sessions=2, warm=2, blob_capacity=40 << 20, memory_limit=1 << 30) as running:
        yield running


@pytest.fixture
def remote(server: Any) -> Any:
    with open_session("127.0.0.1", server.port, wait_s=60) as session:
        yield session


@pytest.fixture(scope="module", params=["bytecode", "compiled"])
def file(request: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "model.tunefarm"
    relax.build(model(), "llvm", exec_mode=request.param).export_library(str(path))
    return str(path)


def machine(remote: Any, file: str) -> Any:
    remote.upload(file)
    return relax.VirtualMachine(remote.load_module("model.tunefarm"), remote.cpu())


X, Y = np.random.default_rng(0).random((2, 3, 8), dtype=np.float32)


def test_a_model_is_called_with_arrays_from_here_and_there(remote: Any, file: str) -> None:
    vm = machine(remote, file)
    first, second = vm["main"](X, Y)
    assert first.device == remote.cpu()
    for got, want in zip((first, second), wanted(X, Y)):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
    again, _ = vm["main"](tvm.nd.array(X, remote.cpu()), y=second)  # what is there stays there
    np.testing.assert_allclose(again.numpy(), wanted(X, second.numpy())[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(ArgumentError, match="main: argument 'y' has"):
        vm["main"](X, Y[:, :4])
    with pytest.raises(ArgumentError, match="main lacks y"):
        vm["main"](X)
    with pytest.raises(MissingFunctionError, match="no function 'other'"):
        vm["other"]
    with pytest.raises(DeviceError, match="cannot be watched"):
        vm.set_instrument(print)


def test_inputs_are_set_and_outputs_got(remote: Any, file: str) -> None:
    vm = machine(remote, file)
    vm.set_input("main", X, Y)
    for _ in range(2):
        vm.invoke_stateful("main")
    first, _ = vm.get_outputs("main")
    np.testing.assert_allclose(first.numpy(), wanted(X, Y)[0], rtol=1e-5, atol=1e-6)
    timed = vm.time_evaluator("invoke_stateful", remote.cpu(), number=3, repeat=2)("main")
    assert len(timed.results) == 2
    assert vm.time_evaluator("main", remote.cpu(), number=3)(X, Y).mean > 0
    vm.save_function("main", "kept", X, Y, include_return=False)
    assert vm["kept"]() is None
    assert vm.time_evaluator("kept", remote.cpu())().mean > 0


def test_a_profile_comes_back(remote: Any, file: str) -> None:
    report = machine(remote, file).profile("main", X, Y, peaks=True)
    assert all("Of roofline" in call for call in report.calls)
    names = [call["Name"] for call in report.calls]
    assert any("matmul" in str(name) for name in names)
    assert "Percent" in report.table()


def test_one_trial_measures_a_whole_model(remote: Any) -> None:
    executable = relax.build(model(16), "llvm", exec_mode="compiled")
    artifact = executable.measurable()
    options = EvaluatorOptions(number=5, repeat=3)
    result = remote.measure(MeasureRequest(artifact.digest, options=options, timeout_s=120.0), [artifact])
    assert result.ok, result.text
    assert len(result.costs) == 3
    other = relax.build(model(16), {"kind": "llvm", "opt-level": 0}, exec_mode="compiled").measurable()
    asked = MeasureRequest(artifact.digest, reference=other.digest, options=options, timeout_s=120.0)
    assert remote.measure(asked, [artifact, other]).ok
    with pytest.raises(ArtifactError, match="no function of machine code"):
        relax.build(model(16), "llvm").measurable()


def crashing() -> Any:
    """A model whose kernel writes far behind its array."""
    from tunefarm.script import tir as T

    @T.prim_func
    def stray(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):  # type: ignore[no-untyped-def,valid-type]
        T.func_attr({"tir.noalias": True})
        for i in range(8):
            y[i * 1000000007] = x[i]

    bb = BlockBuilder()
    x = Var("x", tensor(8))
    with bb.function("main", [x]):
        gvar = bb.add_func(stray, "stray")
        bb.emit_func_output(bb.emit(relax.call_tir(gvar, (x,), tensor(8))))
    return bb.get()


def hanging() -> Any:
    """A model whose kernel does not end."""
    from tunefarm.script import tir as T

    @T.prim_func
    def forever(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):  # type: ignore[no-untyped-def,valid-type]
        T.func_attr({"tir.noalias": True})
        y[0] = 1.0
        while y[0] > 0.0:
            y[0] = y[0] + x[0]

    bb = BlockBuilder()
    x = Var("x", tensor(8))
    with bb.function("main", [x]):
        gvar = bb.add_func(forever, "forever")
        bb.emit_func_output(bb.emit(relax.call_tir(gvar, (x,), tensor(8))))
    return bb.get()


def greedy() -> Any:
    """A model whose result takes 4 GB for 1,024 rows."""
    bb = BlockBuilder()
    x = Var("x", tensor(N, 1))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(op.broadcast_to(x, (N, 1 << 20))))
    return bb.get()


def test_a_model_that_hangs_or_eats_memory_costs_its_session(server: Any, file: str, tmp_path: Any) -> None:
    relax.build(hanging(), "llvm", exec_mode="compiled").export_library(str(tmp_path / "hang.tunefarm"))
    relax.build(greedy(), "llvm", exec_mode="compiled").export_library(str(tmp_path / "greedy.tunefarm"))
    with open_session("127.0.0.1", server.port, wait_s=60) as other:
        good = machine(other, file)
        with open_session("127.0.0.1", server.port, wait_s=60) as one:
            one.upload(str(tmp_path / "greedy.tunefarm"))
            vm = relax.VirtualMachine(one.load_module("greedy.tunefarm"), one.cpu())
            with pytest.raises((DeviceError, OutOfMemory, ExecutorCrashed), match=r"memory|allocate"):
                vm["main"](np.zeros((1024, 1), "float32"))
        with open_session("127.0.0.1", server.port, wait_s=60) as one:
            one.upload(str(tmp_path / "hang.tunefarm"))
            vm = relax.VirtualMachine(one.load_module("hang.tunefarm"), one.cpu())
            one.call_timeout = 0.5
            with pytest.raises(DeadlineExceeded):
                vm["main"](np.zeros(8, "float32"))
        np.testing.assert_allclose(good["main"](X, Y)[0].numpy(), wanted(X, Y)[0], rtol=1e-5, atol=1e-6)


def test_a_model_that_crashes_costs_its_session(server: Any, file: str, tmp_path: Any) -> None:
    bad = tmp_path / "bad.tunefarm"
    relax.build(crashing(), "llvm", exec_mode="compiled").export_library(str(bad))
    with (
        open_session("127.0.0.1", server.port, wait_s=60) as one,
        open_session("127.0.0.1", server.port, wait_s=60) as other,
    ):
        good = machine(other, file)
        one.upload(str(bad))
        vm = relax.VirtualMachine(one.load_module("bad.tunefarm"), one.cpu())
        with pytest.raises((ExecutorCrashed, SessionClosed)):
            vm["main"](np.zeros(8, "float32"))
        np.testing.assert_allclose(good["main"](X, Y)[0].numpy(), wanted(X, Y)[0], rtol=1e-5, atol=1e-6)


def test_odd_requests_are_refused(remote: Any, file: str, tmp_path: Any) -> None:
    vm = machine(remote, file)
    with pytest.raises(HandleError, match="no machine 77"):
        remote.request(UseMachine(77, Action.CALL, "main"))
    with pytest.raises(Exception, match="lacks items"):
        remote.request(UseMachine(vm._handle, Action.CALL, "main", (TupleOf(3),)))
    damaged = bytearray(Path(file).read_bytes())
    damaged[200] ^= 255
    remote.upload(bytes(damaged), "damaged.tunefarm")
    with pytest.raises(ArtifactError, match="damaged"):
        remote.load_module("damaged.tunefarm")
    with pytest.raises(DeviceError, match="is not"):
        relax.VirtualMachine(remote.load_module("model.tunefarm"), tvm.cpu())


def test_a_network_of_relay_runs_on_the_box(remote: Any, tmp_path: Path) -> None:
    mod, params = relay.testing.mlp.get_workload(batch_size=2, num_classes=3, image_shape=(1, 4, 4))
    path = tmp_path / "net.tar"
    relay.build(mod, "llvm", params=params).export_library(str(path))
    remote.upload(path)
    there = graph_executor.GraphModule(remote.load_module("net.tar")["default"](remote.cpu()))
    here = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    data = np.random.default_rng(1).random((2, 1, 4, 4), dtype=np.float32)
    for module in (here, there):
        module.set_input("data", data)
        module.run()
    np.testing.assert_array_equal(there.get_output(0).numpy(), here.get_output(0).numpy())
    assert there.get_output(0).device == there.get_input("data").device == remote.cpu()
    assert (there.get_num_inputs(), there.get_num_outputs()) == (1, 1)
    assert there.get_input_info() == here.get_input_info() == ({"data": (2, 1, 4, 4)}, {"data": "float32"})
    assert there.benchmark(remote.cpu(), number=1, repeat=2).mean > 0
    shared = tvm.nd.array(data * 0, remote.cpu())
    there.set_input_zero_copy("data", shared)
    shared.copyfrom(data)
    there.run()
    np.testing.assert_array_equal(there.get_output(0).numpy(), here.get_output(0).numpy())
