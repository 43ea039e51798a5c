"""`relax.build(exec_mode="compiled")`: graph functions as machine code give what their bytecode gives."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import tunefarm as tvm
from compiler.errors import ArtifactError
from compiler.relax.interp import run
from compiler.runtime.measure.peaks import Peaks
from compiler.runtime.measure.report import Percent, Report
from compiler.runtime.vm.bytecode import Native
from compiler.runtime.vm.executable import Program
from tests.kit.compiler.c_models import run_in_c
from tests.kit.compiler.library import needs_cc
from tests.kit.compiler.struct_info import tensor
from tests.kit.threads import in_threads
from tunefarm import relax, tir
from tunefarm.relax import BlockBuilder, Var, op

N, M = tir.Var("n", "int64"), tir.Var("m", "int64")


def data(*shape: int) -> Any:
    return np.random.default_rng(sum(shape) + 1).standard_normal(shape).astype("float32")


def compiled(mod: Any, native: tuple[str, ...] = ("main",), **options: Any) -> relax.VirtualMachine:
    """A machine for the module; `native` are the functions that must be machine code."""
    executable = relax.build(mod, "llvm", exec_mode="compiled", **options)
    program = executable.program
    assert {f.name for f in program.functions if f.native} >= set(native), executable.stats()
    return relax.VirtualMachine(executable, tvm.cpu())


def check(mod: Any, *args: Any, native: tuple[str, ...] = ("main",)) -> Any:
    wanted, got = run(mod, *args), compiled(mod, native)["main"](*args)
    for a, b in zip(*([x] if not isinstance(x, tuple) else x for x in (wanted, got))):
        np.testing.assert_allclose(b.numpy(), a, rtol=1e-5, atol=1e-5)
    return got


def recursive() -> Any:
    scalar = tensor()
    x, limit, a = Var("x", scalar), Var("limit", scalar), Var("a", scalar)
    again = Var("again", relax.FuncStructInfo([scalar], scalar))
    inside = BlockBuilder()
    with inside.function("inner", [a]):
        cond = inside.emit(op.less(a, relax.const(20.0)))
        more = relax.SeqExpr((), relax.Call(again, [op.add(a, relax.const(1.0))]))
        inside.emit_func_output(inside.emit(relax.If(cond, more, relax.SeqExpr((), a))))
    body: Any = inside.get()["inner"]
    bb = BlockBuilder()
    with bb.function("main", [x, limit]):
        bb.emit_normalized(relax.VarBinding(again, relax.Function([a], body.body, scalar)))
        bb.emit_func_output(bb.emit(op.add(bb.emit(relax.Call(again, [x])), limit)))
    return bb.get()


def test_recursion_that_comes_last_is_a_loop() -> None:
    got = check(recursive(), np.float32(0.5).reshape(()), np.float32(1).reshape(()), native=("main", "main_again"))
    assert got.numpy() == np.float32(21.5)


def test_conditions_merge_what_their_sides_give() -> None:
    bb = BlockBuilder()
    c, x, y = Var("c", tensor(dtype="bool")), Var("x", tensor(N, 3)), Var("y", tensor(N, 3))
    with bb.function("main", [c, x, y]):
        yes, no = relax.SeqExpr((), op.add(x, x)), relax.SeqExpr((), y)
        first = bb.emit(relax.If(c, yes, no))
        second = bb.emit(relax.If(c, relax.SeqExpr((), first), relax.SeqExpr((), op.exp(first))))
        bb.emit_func_output(bb.emit(relax.Tuple((second, op.multiply(first, second)))))
    for value in (True, False):
        check(bb.get(), np.array(value), data(4, 3), data(2, 6).reshape(4, 3))


def test_what_is_given_back_may_be_an_argument_or_a_constant() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(N, 2))
    with bb.function("main", [x]):
        flat = bb.emit(op.reshape(x, (N * 2,)))
        total = bb.emit(op.add(x, relax.const(np.ones(2, "float32"))))
        fields = (x, flat, relax.const(np.arange(3, dtype="float32")), total, total)
        bb.emit_func_output(bb.emit(relax.Tuple(fields)))
    given_in = tvm.nd.array(data(3, 2))
    got = check(bb.get(), given_in.numpy())
    assert len(got) == 5
    same = compiled(bb.get())["main"](given_in)
    assert same[0] is given_in
    assert same[1].data_ptr != given_in.data_ptr


def test_memory_is_used_again() -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(64, 64))
    with bb.function("main", [x]):
        y: Any = x
        for _ in range(20):
            y = bb.emit(op.matmul(op.sin(y), x))
        bb.emit_func_output(y)
    executable = relax.build(bb.get(), "llvm", exec_mode="compiled")
    check(bb.get(), data(64, 64) / 8)
    from compiler.relax.vm_codegen.native.arena import plan
    from compiler.relax.vm_codegen.native.values import NativeStorage

    size = tir.IntImm("int64", 64 * 64 * 4)
    chain = [NativeStorage(size, first=i, last=i + 1) for i in range(20)]
    total = plan(chain).nbytes
    assert isinstance(total, tir.IntImm)
    assert total.value == 2 * size.value
    assert executable.program.interpreted == ()


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 30), st.integers(0, 10)), min_size=1, max_size=25))
@settings(max_examples=60, deadline=None)
def test_storages_in_use_together_never_overlap(sizes: list[tuple[int, int, int]]) -> None:
    from compiler.relax.vm_codegen.native.arena import plan
    from compiler.relax.vm_codegen.native.values import NativeStorage

    made = [NativeStorage(tir.IntImm("int64", size), first=first, last=first + length) for size, first, length in sizes]
    total = plan(made).nbytes
    assert isinstance(total, tir.IntImm)
    spans = [(s.offset.value, s.offset.value + s.nbytes.value, s.first, s.last) for s in made]  # type: ignore[attr-defined]
    for i, (low, high, first, last) in enumerate(spans):
        assert low % 64 == 0
        assert high <= total.value
        for other_low, other_high, other_first, other_last in spans[:i]:
            together = first <= other_last and other_first <= last
            assert not together or high <= other_low or other_high <= low


@given(
    rows=st.integers(0, 5),
    steps=st.lists(st.tuples(st.sampled_from("aemrcf"), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6),
)
@settings(max_examples=6, deadline=None)
def test_random_graphs_give_what_the_interpreter_gives(rows: int, steps: list[tuple[str, int, int]]) -> None:
    bb = BlockBuilder()
    x, y = Var("x", tensor(N, 4)), Var("y", tensor(N, 4))
    with bb.function("main", [x, y]):
        values: list[Any] = [x, y]
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            match kind:
                case "a":
                    made = op.add(a, b)
                case "e":
                    made = op.tanh(a)
                case "m":
                    made = op.matmul(a, relax.const(np.eye(4, dtype="float32") * 0.5))
                case "r":
                    made = op.reshape(op.reshape(a, (N * 4,)), (N, 4))
                case "c":
                    made = op.concat([a, b], axis=0)
                    made = op.strided_slice(made, [0], [0], [N])
                case _:
                    made = op.multiply(a, relax.const(np.arange(4, dtype="float32")))
            values.append(bb.emit(made))
        bb.emit_func_output(bb.emit(relax.Tuple(values[2:])))
    check(bb.get(), data(rows, 4), data(rows, 4) + 1)


def test_what_the_interpreter_runs_is_listed(packed: str) -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(3))
    with bb.function("helper", [x]):
        helper = bb.emit_func_output(bb.emit(op.add(x, x)))
    y = Var("y", tensor(3))
    with bb.function("main", [y]):
        z = bb.emit(relax.call_pure_packed(packed, y, sinfo_args=tensor(3)))
        z = bb.emit(relax.call_pure_packed("test.native.other", z, sinfo_args=tensor(3)))
        bb.emit_func_output(bb.emit(relax.Call(helper, [z])))
    tvm.register_func("test.native.other", lambda x: x, override=True)
    executable = relax.build(bb.get(), "llvm", exec_mode="compiled")
    lines = [f"main: the packed function {name}" for name in (packed, "test.native.other")]
    assert [line.partition(" (")[0] for line in executable.program.interpreted] == lines
    assert f"through the interpreter: main: the packed function {packed}" in executable.stats()
    assert "machine code: helper" in executable.stats()
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](data(3))
    np.testing.assert_allclose(got.numpy(), (data(3) + 1) * 2, rtol=1e-6)


def small_network() -> Any:
    bb = BlockBuilder()
    x = Var("x", tensor(N, 16))
    with bb.function("main", [x]):
        with bb.dataflow():
            y: Any = x
            for i in range(4):
                weight = relax.const(data(16, 16 + i)[:, :16].copy())
                y = bb.emit(op.nn.relu(op.add(op.matmul(y, weight), relax.const(data(16)))))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def test_threads_call_side_by_side() -> None:
    mod = small_network()
    vm = compiled(mod)
    inputs = [data(rows, 16) for rows in (1, 3, 17, 5)]
    wanted = [run(mod, x) for x in inputs]

    def many(index: int) -> None:
        array = tvm.nd.array(inputs[index])
        for _ in range(50):
            np.testing.assert_allclose(vm["main"](array).numpy(), wanted[index], rtol=1e-4, atol=1e-4)

    in_threads(many, range(4))


def test_saved_models_keep_machine_code_and_builds_repeat(tmp_path: Any) -> None:
    path = str(tmp_path / "model.tunefarm")
    mod = small_network()
    executable = relax.build(mod, "llvm", exec_mode="compiled")
    executable.export_library(path)
    loaded = relax.VMExecutable(tvm.runtime.load_module(path))
    assert loaded.program.function("main").native == executable.program.function("main").native  # type: ignore[union-attr]
    vm = relax.VirtualMachine(loaded, tvm.cpu())
    np.testing.assert_allclose(vm["main"](data(3, 16)).numpy(), run(mod, data(3, 16)), rtol=1e-4, atol=1e-4)
    again = str(tmp_path / "again.tunefarm")
    relax.build(small_network(), "llvm", exec_mode="compiled").export_library(again)
    assert Path(path).read_bytes() == Path(again).read_bytes()


def test_watched_calls_are_seen_one_by_one() -> None:
    vm = compiled(small_network())
    seen: list[str] = []

    def watch(func: Any, name: str, before: bool, result: Any, *args: Any) -> None:
        seen.append(name)

    vm.set_instrument(watch)
    watched = vm["main"](data(2, 16)).numpy()
    vm.set_instrument(None)
    np.testing.assert_array_equal(watched, vm["main"](data(2, 16)).numpy())
    assert any("matmul" in name for name in seen)


def test_kernels_may_be_called_as_functions_of_c_are() -> None:
    bb = BlockBuilder()
    x, y = Var("x", tensor(N, dtype="float64")), Var("y", tensor(N, dtype="float64"))
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(op.power(bb.emit(op.erf(bb.emit(op.exp(x)))), bb.emit(op.mod(y, x)))))
    a, b = np.abs(data(5)).astype("float64"), np.abs(data(5)).astype("float64") + 1
    check(bb.get(), a, b)


@needs_cc
def test_a_program_in_c_runs_a_model_and_maps_no_python(tmp_path: Path) -> None:
    executable, x = relax.build(small_network(), "llvm", exec_mode="compiled"), data(8, 16)
    got, maps = run_in_c(executable, x, tmp_path)
    assert "libpython" not in maps
    assert "/python" not in maps
    wanted = relax.VirtualMachine(executable, tvm.cpu())["main"](x).numpy()
    np.testing.assert_array_equal(got, wanted)
    again = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "model.so")), tvm.cpu())
    np.testing.assert_array_equal(again["main"](x).numpy(), wanted)


def test_what_cannot_be_a_library_is_refused(tmp_path: Path) -> None:
    plain = relax.build(small_network(), "llvm")
    with pytest.raises(ArtifactError, match="no function of the executable is machine code"):
        plain.save(str(tmp_path / "model.h"))
    with pytest.raises(ArtifactError, match="cannot be written as a tar file"):
        plain.export_library(str(tmp_path / "model.tar"))


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_profiles_say_what_each_kernel_does(exec_mode: str) -> None:
    bb = BlockBuilder()
    x = Var("x", tensor(N, 256))
    with bb.function("main", [x]):
        y = bb.emit(op.matmul(x, relax.const(data(256, 256))))
        bb.emit_func_output(bb.emit(op.matmul(op.nn.relu(y), relax.const(data(256, 256)))))
    vm = relax.VirtualMachine(relax.build(bb.get(), "llvm", exec_mode=exec_mode), tvm.cpu())
    report = vm.profile("main", data(64, 256), peaks=Peaks(1e11, 1e10))
    products = [call for call in report.calls if "matmul" in str(call["Name"])]
    assert len(products) >= 1
    spent = sum(call["Duration (us)"].microseconds for call in report.calls)  # type: ignore[union-attr]
    for call in report.calls:
        share = 100 * call["Duration (us)"].microseconds / spent  # type: ignore[union-attr]
        assert call["Percent"].percent == pytest.approx(share)  # type: ignore[union-attr]
    for call in products:
        flops = call["GFLOP/s"].ratio * call["Duration (us)"].microseconds * 1e3  # type: ignore[union-attr]
        assert flops >= 2 * 64 * 256 * 256 * 0.99
        assert call["Of roofline"].ratio > 0  # type: ignore[union-attr]
        assert "float32[64, 256]" in str(call["Argument Shapes"])
    total = report.device_metrics["cpu0"]
    assert isinstance(total["Percent"], Percent)
    explained = total["Percent"].percent * total["Duration (us)"].microseconds / 100  # type: ignore[union-attr]
    assert explained == pytest.approx(spent)
    assert "Peak GFLOP/s" in report.table()
    assert Report.from_json(report.json()) == report
    trace = json.loads(report.trace())["traceEvents"]
    events = [event for event in trace if event["ph"] == "X"]
    assert [event["name"] for event in events] == [call["Name"] for call in report.calls]
    assert all(b["ts"] >= a["ts"] + a["dur"] - 1e-6 for a, b in pairwise(events))
    assert report.csv().count("\n") == len(report.calls) + 1


def test_kernels_take_scalars() -> None:
    from tunefarm.script import tir as T

    @T.prim_func
    def shifted(x: T.Buffer((4,), "float32"), k: T.int64, y: T.Buffer((4,), "float32")):  # type: ignore[no-untyped-def,valid-type]
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            with T.block("shifted"):
                v = T.axis.spatial(4, i)
                y[v] = x[(v + k) % 4]

    bb = BlockBuilder()
    x, s = Var("x", tensor(4)), Var("s", relax.ShapeStructInfo([N]))
    with bb.function("main", [x, s]):
        gvar = bb.add_func(reordered(shifted), "shifted")
        bb.emit_func_output(bb.emit(relax.call_tir(gvar, (x,), tensor(4), tir_vars=relax.ShapeExpr([N]))))
    got = compiled(bb.get())["main"](data(4), tvm.runtime.ShapeTuple([3]))
    np.testing.assert_array_equal(got.numpy(), np.roll(data(4), -3))


def reordered(func: Any) -> Any:
    """The function with its scalar behind its arrays, where graphs pass scalars."""
    x, k, y = func.params
    return tir.PrimFunc((x, y, k), func.body, None, func.buffer_map, func.attrs)


def test_executables_that_name_what_is_not_there_are_refused() -> None:
    program = relax.build(small_network(), "llvm", exec_mode="compiled").program
    main = program.function("main")
    assert main is not None
    for native in (Native("other", (0,)), Native("main", (1,)), Native("main", (-3,)), Native("matmul", (0,))):
        functions = tuple(replace(f, native=native) if f is main else f for f in program.functions)
        with pytest.raises(ArtifactError, match=r"has no machine code|gives what its machine code has not"):
            Program(functions, program.constants, program.kernels, program.target)
