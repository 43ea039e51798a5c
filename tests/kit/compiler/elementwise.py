"""Elementwise kernels for tests of arithmetic: vectors of 8 lanes, then what is left one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.driver.build import compile_artifact
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import empty
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimFunc, Stmt
from tests.kit.compiler.lowering import HOST

LANES = 8
PLAIN = Target("llvm -mcpu=x86-64").resolved()  # no FMA, no F16C, no SSE4.1
Array = np.ndarray[Any, Any]


def elementwise(dtypes: Sequence[str], out: str, body: Callable[..., Any], count: int, lanes: int = LANES) -> PrimFunc:
    """out[i] = body(in0[i], in1[i], ...)."""
    buffers = [n.decl_buffer((count,), d, f"in{k}") for k, d in enumerate(dtypes)]
    result = n.decl_buffer((count,), out, "out")

    def store(at: Any) -> Stmt:
        return n.BufferStore(result, ops.cast(out, body(*(b[at] for b in buffers))), (at,))

    outer, lane, rest = n.Var("outer"), n.Var("lane"), n.Var("rest")
    vector = n.For(lane, ops.const(0), ops.const(lanes), ForKind.VECTORIZED, store(outer * lanes + lane))
    loops: list[Stmt] = [n.For(outer, ops.const(0), ops.const(count // lanes), ForKind.SERIAL, vector)]
    if count % lanes:
        first = ops.const(count - count % lanes)
        loops.append(n.For(rest, first, ops.const(count % lanes), ForKind.SERIAL, store(rest)))
    params = tuple(n.Var(f"p{k}", "handle") for k in range(len(buffers) + 1))
    body_of = n.SeqStmt(tuple(loops)) if len(loops) > 1 else loops[0]
    return PrimFunc(params, body_of, None, dict(zip(params, [*buffers, result])), {"tir.noalias": True})


def by_machine(func: PrimFunc, inputs: Sequence[Array], target: Target = HOST) -> Array:
    """The output; bfloat16 travels as its bits, in uint16."""
    module = load_artifact(compile_artifact(func, target, name="main"))
    buffers = [func.buffer_map[p] for p in func.params]
    held = [empty(tuple(ops.as_int(d) for d in b.shape), b.dtype) for b in buffers]  # type: ignore[misc]
    for target_array, values in zip(held, inputs):
        bits = target_array.dtype == "bfloat16"
        target_array.copyfrom(values.view(target_array.numpy().dtype) if bits else values)
    module["main"](*held)
    found: Array = held[-1].numpy()
    return found.view(np.uint16) if buffers[-1].dtype == "bfloat16" else found


def by_interpreter(func: PrimFunc, inputs: Sequence[Array]) -> Array:
    buffer = func.buffer_map[func.params[-1]]
    dtype = "uint16" if buffer.dtype == "bfloat16" else buffer.dtype
    out = np.zeros([ops.as_int(d) for d in buffer.shape], dtype)  # type: ignore[misc]
    run(func, *inputs, out)
    return out


def agree(
    dtypes: Sequence[str], out: str, body: Callable[..., Any], inputs: Sequence[Array], target: Target = HOST
) -> Array:
    """Machine code and the interpreter give the same bits (NaN as NaN); returns them."""
    func = elementwise(dtypes, out, body, len(inputs[0]))
    got, want = by_machine(func, inputs, target), by_interpreter(func, inputs)
    np.testing.assert_array_equal(got, want)
    if got.dtype.kind == "f":
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))
    return got
