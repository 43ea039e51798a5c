"""The cost of the virtual machine beside its kernels: a call of a kernel, a call from Python, loading, memory.

    python benchmarks/vm.py
    python benchmarks/vm.py --peer onnxruntime --peer openvino --tvm PEER/bin/python

The chain is 200 kernels that no pass may merge. The same kernel called from a C loop is subtracted. Peers run in turns
in the same run. Of Apache TVM's chain its kernel is subtracted, too; it runs in a Python of its own, made as
benchmarks/peers/metaschedule.py says. ONNX Runtime and OpenVINO run chains of 200 nodes on one thread, with nothing
subtracted. Each figure is the least of several runs' medians.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import tunefarm as tvm
from compiler.runtime.core.code.cpu_function import CPUFunction
from tunefarm import relax, te, tir
from tunefarm.relax import BlockBuilder, TensorStructInfo, Var, op

LENGTH, ELEMENTS = 200, 16
OPAQUE = 8


def kernel() -> tir.PrimFunc:
    a = te.placeholder((ELEMENTS,), "float32", "A")
    func = te.create_prim_func([a, te.compute((ELEMENTS,), lambda i: a[i] * 1.0001, "B")])
    return func.with_attr("op_pattern", OPAQUE).with_attr("tir.noalias", True)


def chain(length: int) -> Any:
    bb = BlockBuilder()
    info = TensorStructInfo(relax.ShapeExpr([ELEMENTS]), "float32")
    scale = bb.add_func(kernel(), "scale")
    x = Var("x", info)
    with bb.function("main", [x]):
        y: Any = x
        with bb.dataflow():
            for _ in range(length):
                y = bb.emit(relax.call_tir(scale, (y,), info))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def machine(mod: Any, exec_mode: str) -> relax.VirtualMachine:
    return relax.VirtualMachine(relax.build(mod, "llvm", exec_mode=exec_mode), tvm.cpu())


def per_call_ns(call: Callable[[], Any], number: int) -> float:
    began = time.perf_counter_ns()
    for _ in range(number):
        call()
    return (time.perf_counter_ns() - began) / number


def medians(calls: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The least of the rounds' medians of five, in turns."""
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            now = median(call() for _ in range(5))
            best[name] = min(now, best.get(name, now))
    return best


def kernels_and_calls(rounds: int, peers: dict[str, Callable[[], float]]) -> None:
    x = tvm.nd.array(np.ones(ELEMENTS, "float32"))
    lone = tvm.build(kernel(), target="llvm")
    out = tvm.nd.empty((ELEMENTS,))
    native, bytecode = machine(chain(LENGTH), "compiled"), machine(chain(LENGTH), "bytecode")
    one = machine(chain(1), "compiled")
    function = lone.entry_func
    assert isinstance(function, CPUFunction)
    in_loop = function.bind((x, out), tvm.cpu())
    of_native = native.bound("main", x)
    assert of_native is not None
    held = one["main"]
    calls: dict[str, Callable[[], float]] = {
        "kernel in a C loop": lambda: in_loop.timed(20_000) / 20_000,
        "native": lambda: of_native.timed(200) / 200,
        "interpreter": lambda: per_call_ns(lambda: bytecode["main"](x), 20),
        "looked up": lambda: per_call_ns(lambda: one["main"](x), 5000),
        "held": lambda: per_call_ns(lambda: held(x), 5000),
    }
    found = medians(calls | peers, rounds)
    alone = found["kernel in a C loop"]
    print(f"{'a kernel call':34}{'ns':>10}{'goal':>10}")
    print(f"{'  the kernel itself':34}{alone:10.1f}")
    print(f"{'  native, overhead':34}{found['native'] / LENGTH - alone:10.1f}{60:10}")
    print(f"{'  interpreter, overhead':34}{found['interpreter'] / LENGTH - alone:10.1f}{1000:10}")
    for peer in peers:
        print(f"{f'  {peer}':34}{found[peer] / LENGTH:10.1f}")
    print(f"{'a graph of one kernel, from Python':34}{'us':>10}{'goal':>10}")
    print(f"{'  vm[name](x)':34}{found['looked up'] / 1e3:10.2f}{3:10}")
    print(f"{'  function(x)':34}{found['held'] / 1e3:10.2f}{3:10}")


def onnxruntime_chain() -> Callable[[], float]:
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(_onnx_chain(), options, providers=["CPUExecutionProvider"])
    given = {"x": np.ones(ELEMENTS, "float32")}
    return lambda: per_call_ns(lambda: session.run(None, given), 20)


def openvino_chain() -> Callable[[], float]:
    import openvino  # type: ignore[import-not-found]

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    core = openvino.Core()
    model = core.compile_model(core.read_model(_onnx_chain()), "CPU", settings)
    request = model.create_infer_request()
    request.set_input_tensor(openvino.Tensor(np.ones(ELEMENTS, "float32")))
    return lambda: per_call_ns(request.infer, 20)


PEERS = {"onnxruntime": onnxruntime_chain, "openvino": openvino_chain}


def tvm_chain(python: str) -> Callable[[], float]:
    """The calls of Apache TVM's machine, in nanoseconds without their kernels."""
    command = [python, str(Path(__file__).parent / "peers" / "chain.py"), "--length", str(LENGTH)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert peer.stdin is not None
    assert peer.stdout is not None
    asked, answers = peer.stdin, peer.stdout
    answers.readline()

    def once() -> float:
        asked.write("\n")
        asked.flush()
        whole, kernel_alone = map(float, answers.readline().split())
        return whole - LENGTH * kernel_alone

    return once


def _onnx_chain() -> bytes:
    import onnx

    names = ["x", *(f"v{i}" for i in range(LENGTH))]
    kinds = ("Sin", "Tanh", "Neg", "Abs")  # not merged into one another
    nodes = [onnx.helper.make_node(kinds[i % 4], [names[i]], [names[i + 1]]) for i in range(LENGTH)]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [ELEMENTS]) for name in ("x", names[-1])]
    graph = onnx.helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


# -- profiles ---------------------------------------------------------------------------------------
def layers(count: int, size: int) -> Any:
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo(relax.ShapeExpr([size, size]), "float32"))
    with bb.function("main", [x]):
        y: Any = x
        with bb.dataflow():
            for i in range(count):
                weights = np.random.default_rng(i).standard_normal((size, size)).astype("float32") / size**0.5
                y = bb.emit(op.nn.relu(op.matmul(y, relax.const(weights))))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def profiles(rounds: int) -> None:
    """Return the kernels' share of a model's time, and the cost of profiling."""
    vm = machine(layers(8, 256), "compiled")
    x = tvm.nd.array(np.ones((256, 256), "float32"))
    shares, ratios = [], []
    for _ in range(max(rounds, 2)):
        report = vm.profile("main", x)
        explained, whole = (report.device_metrics["cpu0"][name] for name in ("Percent", "Duration (us)"))
        assert isinstance(explained, tvm.runtime.profiling.Percent)
        assert isinstance(whole, tvm.runtime.profiling.Duration)
        shares.append(explained.percent)
        began = time.perf_counter_ns()
        vm.set_instrument(lambda *_: 0)
        vm["main"](x)
        vm.set_instrument(None)
        ratios.append((time.perf_counter_ns() - began) / 1e3 / whole.microseconds)
    print(f"{'kernels of a profile, of the model':34}{median(shares):10.1f} %{95:8} %")
    print(f"{'a watched run, of a plain one':34}{min(ratios):10.2f}")


# -- loading and memory -----------------------------------------------------------------------------
def big_model(path: Path, megabytes: int) -> None:
    rows, columns = 4096, megabytes * (1 << 20) // 4 // 4096
    bb = BlockBuilder()
    x = Var("x", TensorStructInfo(relax.ShapeExpr([1, rows]), "float32"))
    weights = relax.const(np.full((rows, columns), 0.5, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.matmul(x, weights))
        bb.emit_func_output(out)
    relax.build(bb.get(), "llvm", exec_mode="compiled").export_library(str(path))


def loaded(path: str) -> None:
    """In a process of its own: how long a model takes to load, and what it takes of memory besides the file's pages."""
    small = relax.VirtualMachine(relax.build(chain(1), "llvm", exec_mode="compiled"), tvm.cpu())
    small.time_evaluator("main", tvm.cpu(), number=1)(np.ones(ELEMENTS, "float32"))  # with the runtime's native part
    before = private_kib()
    began = time.perf_counter_ns()
    vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    took = time.perf_counter_ns() - began
    vm["main"](np.ones((1, 4096), "float32"))
    print(took / 1e6, private_kib() - before)


def private_kib() -> int:
    """Memory that only this process has and that is no file's."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous"))


def loading(rounds: int, megabytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tunefarm"
        big_model(path, megabytes)
        runs = []
        for _ in range(rounds):
            command = [sys.executable, __file__, "--loaded", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append([float(word) for word in done.stdout.split()])
    took, kib = min(run[0] for run in runs), min(run[1] for run in runs)
    print(f"{f'loading a model of {megabytes} MiB':34}{took:10.1f} ms{20:7} ms")
    print(f"{'memory besides its weights':34}{kib:10.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--peer", action="append", default=[], choices=PEERS, help="run it beside, where it is installed"
    )
    parser.add_argument("--tvm", metavar="PYTHON", help="the Python in which Apache TVM is installed")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--loaded", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.loaded:
        loaded(args.loaded)
        return
    peers = {f"{name}, a node": PEERS[name]() for name in args.peer}
    if args.tvm:
        peers["Apache TVM, overhead"] = tvm_chain(args.tvm)
    kernels_and_calls(args.rounds, peers)
    profiles(args.rounds)
    loading(args.rounds, args.megabytes)


if __name__ == "__main__":
    main()
