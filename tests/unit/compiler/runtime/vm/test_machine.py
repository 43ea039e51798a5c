"""The virtual machine: programs written with `ExecBuilder`, run, saved, watched and measured."""

from collections.abc import Iterator

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.build import compile_artifact
from compiler.errors import ArgumentError, ArtifactError, IRError
from compiler.runtime.core.registry import register_func, remove_global_func
from compiler.runtime.load import load_module
from compiler.runtime.vm.builtins import VMError
from compiler.runtime.vm.exec_builder import ExecBuilder
from compiler.runtime.vm.interpreter import InstrumentReturn
from compiler.runtime.vm.machine import VirtualMachine
from compiler.runtime.vm.signature import FuncInfo, ShapeInfo, SignatureTensor, TupleInfo
from compiler.runtime.vm.vm_executable import VMExecutable
from tests.kit.threads import in_threads
from tunefarm import nd, te


@pytest.fixture(autouse=True)
def functions() -> Iterator[None]:
    added = {
        "test.machine.add": lambda a, b: nd.array(a.numpy() + b.numpy()),
        "test.machine.mul": lambda a, b: nd.array(a.numpy() * b.numpy()),
        "test.machine.minus_one": lambda a: nd.array(a.numpy() - 1),
        "test.machine.positive": lambda a: int(a.numpy() > 0),
        "test.machine.count": lambda n: n + 1,
    }
    for name, function in added.items():
        register_func(name, function)
    yield
    for name in added:
        remove_global_func(name)


def machine(builder: ExecBuilder) -> VirtualMachine:
    return VirtualMachine(builder.get(), tvm.cpu())


def simple() -> ExecBuilder:
    ib = ExecBuilder()
    with ib.function("func0", num_inputs=2, param_names=["a", "b"]):
        ib.emit_call("test.machine.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_call("test.machine.mul", args=[ib.r(2), ib.r(1)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    return ib


def test_calls_and_registers() -> None:
    vm = machine(simple())
    a, b = np.arange(4.0), np.full(4, 3.0)
    np.testing.assert_array_equal(vm["func0"](nd.array(a), nd.array(b)).numpy(), (a + b) * b)
    np.testing.assert_array_equal(vm["func0"](a, b=b).numpy(), (a + b) * b)


def test_listing_python_and_numbers() -> None:
    executable = simple().get()
    assert "@func0(a, b):" in executable.as_text()
    assert "call  test.machine.add" in executable.as_text()
    assert "ret   %3" in executable.as_text()
    assert "instructions: 3" in executable.stats()
    from compiler.runtime.vm import exec_builder

    class relax:
        ExecBuilder = exec_builder.ExecBuilder

    scope = {"relax": relax, "nd": nd}
    exec(executable.as_python(), scope)
    assert scope["ex"].as_text() == executable.as_text()  # type: ignore[attr-defined]


def test_conditions_and_jumps() -> None:
    ib = ExecBuilder()
    with ib.function("factorial_loop", num_inputs=2):
        ib.emit_call("test.machine.positive", args=[ib.r(0)], dst=ib.r(2))
        ib.emit_if(ib.r(2), 4)
        ib.emit_call("test.machine.mul", args=[ib.r(1), ib.r(0)], dst=ib.r(1))
        ib.emit_call("test.machine.minus_one", args=[ib.r(0)], dst=ib.r(0))
        ib.emit_goto(-4)
        ib.emit_ret(ib.r(1))
    bad = ExecBuilder()
    with bad.function("f"):
        bad.emit_goto(7)
    with pytest.raises(ArtifactError, match="jump"):
        bad.get()
    vm = machine(ib)
    assert vm["factorial_loop"](np.float64(5), np.float64(1)).numpy() == 120


def test_functions_call_each_other_deeply() -> None:
    ib = ExecBuilder()
    with ib.function("down", num_inputs=1):
        ib.emit_call("vm.builtin.read_if_cond", args=[ib.r(0)], dst=ib.r(1))
        ib.emit_if(ib.r(1), 4)
        ib.emit_call("test.machine.minus_one", args=[ib.r(0)], dst=ib.r(0))
        ib.emit_call("down", args=[ib.r(0)], dst=ib.r(0))
        ib.emit_ret(ib.r(0))
        ib.emit_ret(ib.r(0))
    assert machine(ib)["down"](np.int64(5000)).numpy() == 0
    forever = ExecBuilder()
    with forever.function("f", num_inputs=0):
        forever.emit_call("f", args=[], dst=forever.r(0))
        forever.emit_ret(forever.r(0))
    with pytest.raises(VMError, match="nested"):
        machine(forever)["f"]()


def test_closures_hold_values() -> None:
    ib = ExecBuilder()
    with ib.function("inner", num_inputs=2):
        ib.emit_call("test.machine.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    with ib.function("make", num_inputs=1):
        ib.emit_call("vm.builtin.make_closure", args=[ib.vm_state(), ib.f("inner"), ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with ib.function("both", num_inputs=2):
        ib.emit_call("make", args=[ib.r(0)], dst=ib.r(2))
        ib.emit_call("vm.builtin.invoke_closure", args=[ib.vm_state(), ib.r(2), ib.r(1)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    vm = machine(ib)
    x, y = np.arange(3.0), np.ones(3)
    closure = vm["make"](x)
    np.testing.assert_array_equal(vm.invoke_closure(closure, y).numpy(), x + y)
    np.testing.assert_array_equal(vm["both"](x, y).numpy(), x + y)


def test_tuples() -> None:
    ib = ExecBuilder()
    with ib.function("swap", num_inputs=1, param_names=["pair"]):
        ib.emit_call("vm.builtin.check_tuple_info", args=[ib.r(0), ib.imm(2), ib.c("swap: pair")])
        ib.emit_call("vm.builtin.tuple_getitem", args=[ib.r(0), ib.imm(0)], dst=ib.r(1))
        ib.emit_call("vm.builtin.tuple_getitem", args=[ib.r(0), ib.imm(1)], dst=ib.r(2))
        ib.emit_call("vm.builtin.make_tuple", args=[ib.r(2), ib.r(1)], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    vm = machine(ib)
    first, second = vm["swap"]([np.zeros(2), np.ones(3)])
    assert first.shape == (3,)
    assert second.shape == (2,)
    with pytest.raises(ArgumentError, match="swap: pair: the tuple has 1 fields, and must have 2"):
        vm["swap"]((np.zeros(1),))


def test_shapes_are_matched_and_made() -> None:
    ib = ExecBuilder()
    with ib.function("f", num_inputs=2, param_names=["x", "y"]):
        heap = ib.r(2)
        ib.emit_call("vm.builtin.alloc_shape_heap", args=[ib.vm_state(), ib.imm(2)], dst=heap)
        codes = [ib.imm(1), ib.imm(0), ib.imm(1), ib.imm(1)]
        ib.emit_call("vm.builtin.match_shape", args=[ib.r(0), heap, ib.imm(2), *codes, ib.c("argument x")])
        codes = [ib.imm(3), ib.imm(1), ib.imm(0), ib.imm(4)]
        ib.emit_call("vm.builtin.match_shape", args=[ib.r(1), heap, ib.imm(2), *codes, ib.c("argument y")])
        codes = [ib.imm(1), ib.imm(1), ib.imm(0), ib.imm(7), ib.imm(1), ib.imm(0)]
        ib.emit_call("vm.builtin.make_shape", args=[heap, ib.imm(3), *codes], dst=ib.r(3))
        ib.emit_ret(ib.r(3))
    vm = machine(ib)
    assert vm["f"](np.zeros((2, 3)), np.zeros((3, 4))) == (3, 7, 2)
    with pytest.raises(ArgumentError, match=r"argument y: dimension 0 of the shape \(5, 4\) is 5, and must be 3"):
        vm["f"](np.zeros((2, 3)), np.zeros((5, 4)))
    with pytest.raises(ArgumentError, match="argument x: it has 1 dimensions"):
        vm["f"](np.zeros(2), np.zeros((5, 4)))


def kernel_program() -> VMExecutable:
    n = 64
    a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    artifact = compile_artifact(tvm.IRModule({"matmul": te.create_prim_func([a, b, c])}), target="llvm")
    ib = ExecBuilder()
    tensor = SignatureTensor("float32", (n, n))
    with ib.function("main", num_inputs=1, param_names=["x"], signature=FuncInfo((tensor,), tensor)):
        weights = ib.c(np.eye(n, dtype="float32") * 2)
        storage = [ib.vm_state(), ib.c((2 * n * n * 4,)), ib.imm(0), ib.c(tvm.runtime.DataType("uint8"))]
        ib.emit_call("vm.builtin.alloc_storage", args=storage, dst=ib.r(1))
        shape, dtype = ib.c((n, n)), ib.c(tvm.runtime.DataType("float32"))
        ib.emit_call("vm.builtin.alloc_tensor", args=[ib.r(1), ib.imm(0), shape, dtype], dst=ib.r(2))
        ib.emit_call("vm.builtin.alloc_tensor", args=[ib.r(1), ib.imm(n * n * 4), shape, dtype], dst=ib.r(3))
        ib.emit_call("matmul", args=[ib.r(0), weights, ib.r(2)])
        ib.emit_call("matmul", args=[ib.r(2), ib.r(0), ib.r(3)])
        ib.emit_ret(ib.r(3))
    return VMExecutable(ib.program({"cpu": artifact}, artifact.target))


def test_kernels_constants_and_storage() -> None:
    x = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    vm = VirtualMachine(kernel_program(), tvm.cpu())
    first = vm["main"](x)
    np.testing.assert_allclose(first.numpy(), 2 * x @ x, rtol=1e-4, atol=1e-4)
    seen = np.asarray(first)
    kept = seen.copy()
    del first
    vm["main"](np.zeros_like(x))  # takes no memory that numpy still looks at
    np.testing.assert_array_equal(seen, kept)
    with pytest.raises(ArgumentError, match=r"main: argument 'x' has shape \(64, 63\): dimension 1 is 63, not 64"):
        vm["main"](x[:, 1:])
    with pytest.raises(ArgumentError, match=r"has dtype float64; it must be float32\[64, 64\]"):
        vm["main"](x.astype("float64"))


def test_memory_is_used_again() -> None:
    vm = VirtualMachine(kernel_program(), tvm.cpu())
    x = nd.array(np.ones((64, 64), "float32"))
    addresses = {vm["main"](x).data_ptr for _ in range(8)}
    assert len(addresses) == 1
    held = [vm["main"](x) for _ in range(4)]
    assert len({array.data_ptr for array in held}) == 4


def test_calls_from_several_threads() -> None:
    vm = VirtualMachine(kernel_program(), tvm.cpu())

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((64, 64)).astype("float32")
        for _ in range(20):
            np.testing.assert_allclose(vm["main"](x).numpy(), 2 * x @ x, rtol=1e-3, atol=1e-3)

    in_threads(work, range(4))


def test_saved_functions() -> None:
    vm = machine(simple())
    a, b = np.arange(4.0), np.ones(4)
    vm.save_function("func0", "saved", a, b)
    np.testing.assert_array_equal(vm["saved"]().numpy(), a + b)
    vm.save_function("func0", "saved", b, b, include_return=False)
    assert vm["saved"]() is None
    with pytest.raises(ArgumentError, match="is a function of the executable"):
        vm.save_function("func0", "func0", a, b)
    with pytest.raises(AttributeError, match="no function 'nothing'"):
        vm["nothing"]


def test_state() -> None:
    vm = machine(simple())
    with pytest.raises(ValueError, match="no arguments were set"):
        vm.invoke_stateful("func0")
    vm.set_input("func0", np.ones(2), b=np.ones(2))
    with pytest.raises(ValueError, match="was not invoked"):
        vm.get_outputs("func0")
    vm.invoke_stateful("func0")
    np.testing.assert_array_equal(vm.get_outputs("func0").numpy(), [2, 2])
    with pytest.raises(ArgumentError, match="func0 lacks b"):
        vm.set_input("func0", a=np.ones(2))


def test_instruments_see_and_skip_calls() -> None:
    vm = machine(simple())
    seen: list[tuple[str, bool]] = []

    def watch(func: object, name: str, before_run: bool, ret_value: object, *args: object) -> int:
        seen.append((name, before_run))
        return InstrumentReturn.SKIP_RUN if name == "test.machine.mul" else InstrumentReturn.NO_OP

    vm.set_instrument(watch)
    assert vm["func0"](np.ones(1), np.ones(1)) is None
    assert seen == [("test.machine.add", True), ("test.machine.add", False), ("test.machine.mul", True)]
    vm.set_instrument(None)
    assert vm["func0"](np.ones(1), np.ones(1)).numpy() == 2


def test_timing_and_profile() -> None:
    vm = VirtualMachine(kernel_program(), tvm.cpu())
    x = np.ones((64, 64), "float32")
    result = vm.time_evaluator("main", tvm.cpu(), number=2, repeat=3)(x)
    assert len(result.results) == 3
    vm.set_input("main", x)
    assert vm.time_evaluator("invoke_stateful", tvm.cpu(), number=1)("main").mean > 0
    vm.save_function("main", "main_saved", x)
    assert vm.time_evaluator("main_saved", tvm.cpu(), number=1)().mean > 0
    report = vm.profile("main", x)
    assert sum(call["Name"] == "matmul" for call in report.calls) == 2


def test_messages_of_missing_functions_and_values() -> None:
    ib = ExecBuilder()
    with ib.function("f", num_inputs=1, param_names=["x"]):
        ib.emit_call("test.machine.not_there", args=[ib.r(0)], dst=ib.r(1))
        ib.emit_ret(ib.r(1))
    with pytest.raises(VMError, match=r"'test.machine.not_there', which is neither a kernel nor a registered function"):
        machine(ib)["f"](np.ones(1))
    with pytest.raises(ArgumentError, match="f takes 1 argument, 2 given"):
        machine(ib)["f"](1, 2)
    with ExecBuilder().function("f"):
        pass
    ib = ExecBuilder()
    ib.function("f")
    with pytest.raises(IRError, match="function 'g' begins inside function 'f'"):
        ib.function("g")
    with pytest.raises(IRError, match="is not finished"):
        ib.get()


def test_signatures_name_extents() -> None:
    ib = ExecBuilder()
    params = (
        SignatureTensor("float32", ("n", 4)),
        SignatureTensor("float32", ("n*2",)),
        TupleInfo((ShapeInfo(ndim=1),)),
    )
    with ib.function("f", num_inputs=3, param_names=["x", "y", "z"], signature=FuncInfo(params)):
        ib.emit_ret(ib.r(0))
    vm = machine(ib)
    shape = tvm.runtime.ShapeTuple([1])
    vm["f"](np.zeros((3, 4), "float32"), np.zeros(6, "float32"), (shape,))
    with pytest.raises(ArgumentError, match=r"argument 'y' has shape \(5,\): dimension 0 is 5, not 6 \(n\*2 = 6\)"):
        vm["f"](np.zeros((3, 4), "float32"), np.zeros(5, "float32"), (shape,))
    with pytest.raises(ArgumentError, match=r"argument 'z'\[0\] is a int; it must be shape"):
        vm["f"](np.zeros((3, 4), "float32"), np.zeros(6, "float32"), (3,))


def test_an_exported_executable_runs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    executable = kernel_program()
    file = tmp_path / "model.tunefarm"
    executable.export_library(str(file))
    x = np.random.default_rng(1).standard_normal((64, 64)).astype("float32")
    vm = VirtualMachine(load_module(str(file)), tvm.cpu())
    np.testing.assert_allclose(vm["main"](x).numpy(), 2 * x @ x, rtol=1e-4, atol=1e-4)
    assert VMExecutable(load_module(str(file))).as_text() == executable.as_text()
