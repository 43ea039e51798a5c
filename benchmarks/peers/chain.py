"""A chain of small kernels on Apache TVM's virtual machine. Runs in the peer's Python, made as metaschedule.py says.

Prints one JSON line. Then, for each line on standard input, the nanoseconds of a call of the whole chain and of its
kernel alone, so that whoever asks can take turns.
"""

import argparse
import json
import sys
import time

import numpy as np
import tvm
from tvm import relax, te

OPAQUE = 8


def kernel(elements):
    a = te.placeholder((elements,), "float32", "A")
    return te.create_prim_func([a, te.compute((elements,), lambda i: a[i] * tvm.tirx.const(1.0001, "float32"), "B")])


def chain(length, elements):
    bb = relax.BlockBuilder()
    info = relax.TensorType((elements,), "float32")
    func = kernel(elements).with_attr("global_symbol", "scale").with_attr("op_pattern", OPAQUE)
    scale = bb.add_func(func.with_attr("tir.noalias", True), "scale")
    x = relax.Var("x", info)
    with bb.function("main", [x]):
        y = x
        with bb.dataflow():
            for _ in range(length):
                y = bb.emit(relax.call_tir(scale, relax.Tuple([y]), info))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--elements", type=int, default=16)
    args = parser.parse_args()
    device = tvm.cpu()
    machine = relax.VirtualMachine(relax.build(chain(args.length, args.elements), "llvm"), device)
    built = tvm.compile(tvm.IRModule({"main": kernel(args.elements)}), target="llvm")
    made = tvm.runtime.tensor if hasattr(tvm.runtime, "tensor") else tvm.nd.array
    x, out = (made(np.ones(args.elements, "float32"), device) for _ in range(2))
    function = machine["main"]
    function(x)
    alone = built.mod.time_evaluator("main", device, number=20_000, repeat=1)
    print(json.dumps({"peer": tvm.__version__}), flush=True)
    for _ in sys.stdin:
        began = time.perf_counter_ns()
        for _ in range(20):
            function(x)
        print((time.perf_counter_ns() - began) / 20, alone(x, out).mean * 1e9, flush=True)


if __name__ == "__main__":
    main()
