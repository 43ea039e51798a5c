"""The document of TVM's relax namespace, sentence by sentence: the virtual machine, what it runs and who builds it."""

from __future__ import annotations

import inspect
import time
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import relax
from tunefarm.script import ir as I
from tunefarm.script import relax as R
from tunefarm.script import tir as T

CPU = tvm.cpu()


@I.ir_module
class Sums:
    @R.function
    def foo(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        return R.add(x, y)

    @R.function
    def pair(x: R.Tensor((3, 4), "float32")):
        a = R.exp(x)
        b = R.negative(a)
        return (a, b)

    @R.function
    def nothing():
        return R.const(1.0, "float32")


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(0, 1, shape).astype("float32")


@pytest.fixture(scope="module")
def code() -> Any:
    return tvm.compile(Sums, tvm.target.Target("llvm", host="llvm"))


@pytest.fixture
def vm(code: Any) -> Any:
    return relax.VirtualMachine(code, tvm.cpu())


X, Y = numbers(3, 4), numbers(3, 4) + 1


def array(value: Any) -> Any:
    return tvm.nd.array(value)


def test_a_machine_is_made_of_an_executable_or_its_module(code: Any) -> None:
    for what in (code, relax.build(Sums, "llvm"), code.mod, code.jit()):
        for device in (CPU, [CPU], tvm.device("cpu", 0)):
            machine = relax.VirtualMachine(what, device)
            np.testing.assert_allclose(machine["foo"](array(X), array(Y)).numpy(), X + Y)


@pytest.mark.parametrize("memory", [None, "naive", "pooled", {CPU: "pooled"}])
def test_the_memory_of_a_machine(code: Any, memory: Any) -> None:
    machine = relax.VirtualMachine(code, CPU, memory_cfg=memory)
    np.testing.assert_allclose(machine["foo"](array(X), array(Y)).numpy(), X + Y)


def test_memory_that_there_is_not(code: Any) -> None:
    with pytest.raises(ValueError, match="naive"):
        relax.VirtualMachine(code, CPU, memory_cfg="none")
    with pytest.raises((TypeError, ValueError)):
        relax.VirtualMachine(code, CPU, memory_cfg=3)


def test_a_profiling_machine_reports(code: Any) -> None:
    report = relax.VirtualMachine(code, CPU, profile=True).profile("foo", array(X), array(Y))
    assert isinstance(report, tvm.runtime.profiling.Report)
    assert "add" in str(report)


def test_save_function(vm: Any) -> None:
    vm.save_function("foo", "saved", array(X), array(Y))
    np.testing.assert_allclose(vm["saved"]().numpy(), X + Y)
    vm.save_function("foo", "saved", array(X), array(X))  # a saved name may be taken again
    np.testing.assert_allclose(vm["saved"]().numpy(), X + X)
    with pytest.raises(ValueError, match="foo"):  # a function of the source may not
        vm.save_function("pair", "foo", array(X))
    vm.save_function("foo", "by_name", x=array(X), y=array(Y))
    np.testing.assert_allclose(vm["by_name"]().numpy(), X + Y)
    vm.save_function("foo", "silent", array(X), array(Y), include_return=False)
    assert vm["silent"]() is None
    assert vm.module["by_name"] is vm["by_name"]  # the module has them, too
    np.testing.assert_allclose(vm.module["foo"](array(X), array(Y)).numpy(), X + Y)
    assert {"foo", "saved"} <= set(vm.module.get_function_list())
    assert vm.module.implements_function("saved")
    vm.save_function("foo", "timed", array(X), array(Y))
    assert vm.module.time_evaluator("timed", CPU)().mean > 0
    assert vm.time_evaluator("timed", CPU)().mean > 0


def test_inputs_are_set_and_outputs_fetched(vm: Any) -> None:
    vm.set_input("foo", array(X), array(Y))
    assert vm.invoke_stateful("foo") is None
    np.testing.assert_allclose(vm.get_outputs("foo").numpy(), X + Y)
    vm.set_input("pair", x=array(X))
    vm.invoke_stateful("pair")
    first, second = vm.get_outputs("pair")
    np.testing.assert_allclose(first.numpy(), -second.numpy())


def test_state_out_of_order_is_an_error(vm: Any) -> None:
    with pytest.raises(ValueError, match="set_input"):
        vm.invoke_stateful("foo")
    with pytest.raises(ValueError, match="set_input"):
        vm.invoke_stateful("nothing")  # even without any input
    vm.set_input("nothing")
    vm.invoke_stateful("nothing")
    assert float(vm.get_outputs("nothing").numpy()) == 1
    vm.set_input("foo", array(X), array(Y))
    with pytest.raises(ValueError, match="invoke_stateful"):  # and called directly
        vm["foo"](array(X), array(Y))
    with pytest.raises(ValueError, match="invoke_stateful"):
        relax.VirtualMachine(relax.build(Sums, "llvm"), CPU).get_outputs("foo")


def test_an_instrument_is_called_around_each_call(vm: Any) -> None:
    seen: list[tuple[str, bool, Any, int]] = []

    def instrument(func: Any, func_symbol: str, before_run: bool, ret_value: Any, *args: Any) -> Any:
        assert callable(func)
        seen.append((func_symbol, before_run, ret_value, len(args)))
        return relax.VMInstrumentReturnKind.NO_OP

    vm.set_instrument(instrument)
    vm["foo"](array(X), array(Y))
    calls = [name for name, before, _, _ in seen if before]
    assert calls
    assert calls == [name for name, before, _, _ in seen if not before]
    assert all(value is None for _, before, value, _ in seen if before)  # known only after the call
    assert any("add" in name for name in calls)


def test_an_instrument_may_skip_calls(vm: Any) -> None:
    ran: list[str] = []

    def instrument(func: Any, func_symbol: str, before_run: bool, ret_value: Any, *args: Any) -> int:
        if not before_run:
            ran.append(func_symbol)
        return int(relax.VMInstrumentReturnKind.SKIP_RUN) if func_symbol == "add" else 0

    vm.set_instrument(instrument)
    vm["foo"](array(X), array(Y))
    assert "add" not in ran
    assert (relax.VMInstrumentReturnKind.NO_OP, relax.VMInstrumentReturnKind.SKIP_RUN) == (0, 1)
    assert relax.VMInstrumentReturnKind(1) is relax.VMInstrumentReturnKind.SKIP_RUN


def test_times_of_a_function(vm: Any) -> None:
    result = vm.time_evaluator("foo", tvm.cpu(), number=3, repeat=4)(array(X), array(Y))
    assert isinstance(result, tvm.runtime.module.BenchmarkResult)
    assert len(result.results) == 4
    assert min(result.results) > 0
    vm.set_input("foo", array(X), array(Y))
    assert vm.time_evaluator("invoke_stateful", tvm.cpu())("foo").mean > 0
    np.testing.assert_allclose(vm.get_outputs("foo").numpy(), X + Y)


def test_how_often_a_timed_function_is_called(vm: Any) -> None:
    calls: list[bool] = []
    vm.set_instrument(lambda func, name, before, value, *args: calls.append(before) if name == "add" else None)
    vm.time_evaluator("foo", CPU, number=3, repeat=2)(array(X), array(Y))
    assert calls.count(True) == 1 + 3 * 2


def test_a_repeat_takes_its_least_time(vm: Any) -> None:
    calls: list[bool] = []
    vm.set_instrument(lambda func, name, before, value, *args: calls.append(before) if name == "add" else None)
    vm.time_evaluator("foo", CPU, number=1, repeat=1, min_repeat_ms=5)(array(X), array(Y))
    assert calls.count(True) > 10


def test_cooling_down_and_preparing(vm: Any) -> None:
    prepared: list[int] = []
    tvm.register_func("seed.prepare", lambda *args: prepared.append(len(args)), override=True)
    start = time.perf_counter()
    timer = vm.time_evaluator(
        "foo", CPU, number=1, repeat=4, cooldown_interval_ms=20, repeats_to_cooldown=2, f_preproc="seed.prepare"
    )
    timer(array(X), array(Y))
    assert time.perf_counter() - start > 0.04  # before the first and the third repeat
    assert prepared == [2, 2, 2, 2]


def test_the_documented_build() -> None:
    target = tvm.target.Target("llvm", host="llvm")
    code = tvm.compile(Sums, target)
    assert isinstance(code, relax.Executable)
    parameters = inspect.signature(relax.build).parameters
    assert parameters["exec_mode"].default == "bytecode"
    assert parameters["system_lib"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_ways_to_run(mode: str) -> None:
    code = relax.build(Sums, target="llvm", exec_mode=mode)
    np.testing.assert_allclose(relax.VirtualMachine(code, CPU)["foo"](array(X), array(Y)).numpy(), X + Y)


def test_a_way_to_run_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="bytecode"):
        relax.build(Sums, target="llvm", exec_mode="other")


@pytest.mark.parametrize("pipeline", [None, "default", "default_build"])
def test_pipelines_by_name(pipeline: str | None) -> None:
    lowered = relax.get_pipeline("default_build")(Sums) if pipeline is None else Sums
    code = relax.build(lowered, "llvm", relax_pipeline=pipeline)
    np.testing.assert_allclose(relax.VirtualMachine(code, CPU)["foo"](array(X), array(Y)).numpy(), X + Y)


def test_a_pipeline_of_ones_own() -> None:
    seen: list[int] = []

    @tvm.transform.module_pass(opt_level=0)
    def look(mod: Any, ctx: Any) -> Any:
        seen.append(len(mod.get_global_vars()))
        return mod

    relax_passes = tvm.transform.Sequential([look, relax.get_pipeline("default_build")])
    code = relax.build(Sums, "llvm", relax_pipeline=relax_passes, tir_pipeline="default")
    assert seen == [3]
    np.testing.assert_allclose(relax.VirtualMachine(code, CPU)["foo"](array(X), array(Y)).numpy(), X + Y)
    assert isinstance(relax.get_pipeline(), tvm.transform.Pass)
    with pytest.raises(ValueError, match="zero"):
        relax.get_pipeline("no such pipeline")


def test_parameters_of_a_build() -> None:
    @I.ir_module
    class Weighted:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), w: R.Tensor((3, 4), "float32")):
            return R.multiply(x, w)

    code = relax.build(Weighted, "llvm", params={"w": array(Y)})
    np.testing.assert_allclose(relax.VirtualMachine(code, CPU)["main"](array(X)).numpy(), X * Y)


def test_an_executable_tells_and_is_kept(code: Any, tmp_path: Any) -> None:
    assert isinstance(code, relax.VMExecutable)
    assert "foo" in code.stats()
    assert "foo" in code.as_text()
    assert "foo" in code.as_python()
    path = str(tmp_path / "lib.so")
    code.export_library(path)
    again = relax.VirtualMachine(tvm.runtime.load_module(path), CPU)
    np.testing.assert_allclose(again["foo"](array(X), array(Y)).numpy(), X + Y)


def test_instructions_one_by_one() -> None:
    tvm.register_func("seed.add", lambda a, b: tvm.nd.array(a.numpy() + b.numpy()), override=True)
    builder = relax.ExecBuilder()
    with builder.function("f", num_inputs=2, param_names=["a", "b"]):
        builder.emit_call("seed.add", args=[builder.r(0), builder.r(1)], dst=builder.r(2))
        builder.emit_ret(builder.r(2))
    with builder.function("choose", num_inputs=3):
        builder.emit_if(builder.r(0), 2)
        builder.emit_ret(builder.r(1))
        builder.emit_ret(builder.r(2))
    with builder.function("jump", num_inputs=1):
        builder.emit_goto(2)
        builder.emit_call("seed.add", args=[builder.r(0), builder.r(0)], dst=builder.r(0))
        builder.emit_ret(builder.r(0))
    code = builder.get()
    assert isinstance(code, relax.VMExecutable)
    machine = relax.VirtualMachine(code, CPU)
    np.testing.assert_allclose(machine["f"](array(X), array(Y)).numpy(), X + Y)
    np.testing.assert_allclose(machine["choose"](True, array(X), array(Y)).numpy(), X)
    np.testing.assert_allclose(machine["choose"](False, array(X), array(Y)).numpy(), Y)
    np.testing.assert_allclose(machine["jump"](array(X)).numpy(), X)


def test_a_constant_as_an_argument_of_an_instruction() -> None:
    tvm.register_func("seed.add", lambda a, b: tvm.nd.array(a.numpy() + b.numpy()), override=True)
    builder = relax.ExecBuilder()
    with builder.function("h", num_inputs=1):
        builder.emit_call("seed.add", args=[builder.r(0), array(Y)], dst=builder.r(1))
        builder.emit_ret(builder.r(1))
    machine = relax.VirtualMachine(builder.get(), CPU)
    np.testing.assert_allclose(machine["h"](array(X)).numpy(), X + Y)


def test_a_match_is_checked_where_it_runs() -> None:
    @I.ir_module
    class Matches:
        @R.function
        def main(x: R.Tensor(ndim=2, dtype="float32")):
            n, m = T.int64(), T.int64()
            y = R.match_cast(x, R.Tensor((n, m), "float32"))
            z = R.match_cast(y, R.Tensor((n, 4), "float32"))  # m must be 4
            return R.call_tir(Matches.copy, (z,), out_sinfo=R.Tensor((n, m), "float32"))

        @T.prim_func
        def copy(a: T.handle, b: T.handle):
            n, m = T.int64(), T.int64()
            A = T.match_buffer(a, (n, m), "float32")
            B = T.match_buffer(b, (n, m), "float32")
            for i, j in T.grid(n, m):
                with T.block("copy"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj]

    machine = relax.VirtualMachine(relax.build(Matches, "llvm"), CPU)
    np.testing.assert_allclose(machine["main"](array(X)).numpy(), X)  # n is filled in from the value
    with pytest.raises((RuntimeError, ValueError)):
        machine["main"](array(numbers(3, 5)))
    with pytest.raises((RuntimeError, ValueError)):
        machine["main"](array(numbers(3)))
