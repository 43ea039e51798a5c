"""Small functions for the interpreter, made by hand."""

from __future__ import annotations

import numpy as np

from compiler.interp import interpreter as interp
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind

RNG = np.random.default_rng(7)
TRUE = ops.const(True)
ZERO = ops.const(0)


def func_of(body, *params):
    """A function over buffers and scalar variables."""
    variables, buffer_map = [], {}
    for param in params:
        if isinstance(param, n.Buffer):
            variables.append(n.Var(f"var_{param.name}", "handle"))
            buffer_map[variables[-1]] = param
        else:
            variables.append(param)
    return n.PrimFunc(tuple(variables), body, None, buffer_map)


def loop(extent, make, kind=ForKind.SERIAL, low=0, name="i"):
    var = n.Var(name)
    return n.For(var, ops.as_expr(low), ops.as_expr(extent), kind, make(var))


def elementwise(make, *arrays, dtype=None):
    """out[i] = make(*(a[i] for a in arrays)), run on the interpreter."""
    buffers = [n.decl_buffer((a.size,), str(a.dtype), f"a{k}") for k, a in enumerate(arrays)]
    if dtype is None:
        dtype = make(*(b[0] for b in buffers)).dtype
    out = n.decl_buffer((arrays[0].size,), dtype, "out")
    body = loop(arrays[0].size, lambda i: n.BufferStore(out, make(*(b[i] for b in buffers)), (i,)))
    result = np.zeros(arrays[0].size, dtype)
    interp.run(func_of(body, *buffers, out), *arrays, result)
    return result
