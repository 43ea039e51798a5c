"""Parts of warps' and warpgroups' kernels: threads and memory around them, and plain products."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from compiler.errors import IRError
from compiler.lower.gpu.inject_barriers import OWN_BARRIERS
from compiler.lower.loops.vectorize import vectorize
from compiler.tensorcore.warp_form import BYTES, Form, WarpAxis, WarpOperand, WarpProduct, stored
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt

ATTRS = {"tir.noalias": True, OWN_BARRIERS: True}  # of a function that is such a kernel
_VECTOR_BITS = 128


def run(call: PrimExpr) -> Stmt:
    return n.Evaluate(call)


def in_threads(body: Stmt, buffers: Iterable[n.Buffer], axes: Iterable[tuple[n.Var, str, int]]) -> Stmt:
    """Return `body` with the memory of a block and its threads, in each of the threads along `axes`.
    An axis is (variable, tag, extent); the first is the innermost."""
    for buffer in buffers:
        body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, ops.const(True), body, buffer.scope)
    for var, tag, extent in axes:
        axis = n.IterVar(None, n.Var(tag, "int32"), n.IterType.THREAD_INDEX, tag)
        body = n.For(var, ops.const(0), ops.const(extent), ForKind.THREAD_BINDING, body, axis)
    return vectorize(n.PrimFunc((), body), _VECTOR_BITS).body


def plain_function(
    sizes: tuple[int, int, int],
    dtype: str,
    out_dtype: str | None,
    transposed: bool,
    kernel: Callable[[WarpProduct], Stmt],
) -> n.PrimFunc:
    """The function of X, W and C whose body is the `kernel` of a plain product; `sizes` are (m, n, k).
    Raises IRError for other results than the sums' float32 or int32, or for floats the operands' dtype."""
    m, n_, k = sizes
    allowed = ("int32",) if dtype in BYTES else ("float32", dtype)
    chosen = allowed[0] if out_dtype is None else out_dtype
    if chosen not in allowed:
        raise IRError(f"a product of {dtype} is {' or '.join(allowed)}, not {chosen}")
    shapes = (("X", (m, k), dtype), ("W", (n_, k) if transposed else (k, n_), dtype), ("C", (m, n_), chosen))
    buffers = [n.decl_buffer(shape, kind, name) for name, shape, kind in shapes]
    params = {n.Var(f"var_{buffer.name}", "handle"): buffer for buffer in buffers}
    body = kernel(_plain_product(sizes, buffers, transposed))
    return n.PrimFunc(tuple(params), body, buffer_map=params, attrs=ATTRS)


def _plain_product(sizes: tuple[int, int, int], buffers: Sequence[n.Buffer], transposed: bool) -> WarpProduct:
    """C[m, n] = X[m, k] W[n, k]^T, or X[m, k] W[k, n] where W is not `transposed`."""
    m, n_, k = (WarpAxis(n.Var(name, "int32"), size) for name, size in zip("mnk", sizes))
    x, w, c = buffers
    places = m.var * k.extent + k.var, n_.var * k.extent + k.var if transposed else k.var * n_.extent + n_.var
    total = n.Var("total", "int32" if x.dtype in BYTES else "float32")
    form = Form((), (m,), (n_,), (k,), WarpOperand(x, places[0]), WarpOperand(w, places[1]))
    return stored(form, total, ops.cast(c.dtype, total), c, m.var * n_.extent + n_.var)
