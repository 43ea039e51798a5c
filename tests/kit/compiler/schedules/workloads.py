"""Small functions to schedule, and running them: what the tests of the schedule engine share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.driver.pipeline import lower_func
from compiler.errors import ScheduleError
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.script.entry import from_source
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from compiler.tir.verify import LoweringStage, verify
from compiler.topi.nn import softmax as topi_softmax
from compiler.topi.nn.conv import conv2d_nchw


def matmul(m: int = 13, n: int = 11, k: int = 10) -> PrimFunc:
    """C = A @ B; block C."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    rk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=rk), name="C")
    return create_prim_func([a, b, c])


def matmul_relu(m: int = 13, n: int = 11, k: int = 10) -> PrimFunc:
    """D = max(A @ B, 0); blocks C, D."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    rk = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, rk] * b[rk, j], axis=rk), name="C")
    d = te.compute((m, n), lambda i, j: ops.maximum(c[i, j], 0.0), name="D")
    return create_prim_func([a, b, d])


def chain(n: int = 10, m: int = 7) -> PrimFunc:
    """B = A * 2; C = B + 1; D = C * C; blocks B, C, D."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] * c[i, j], name="D")
    return create_prim_func([a, d])


def blur(n: int = 11, window: int = 3) -> PrimFunc:
    """B = A * 2; C[i] = B[i] + ... + B[i + window - 1]; blocks B, C."""
    a = te.placeholder((n + window - 1,), name="A")
    b = te.compute((n + window - 1,), lambda i: a[i] * 2.0, name="B")
    r = te.reduce_axis((0, window), name="r")
    c = te.compute((n,), lambda i: te.sum(b[i + r], axis=r), name="C")
    return create_prim_func([a, c])


def row_sum(n: int = 9, m: int = 14) -> PrimFunc:
    """S[i] = sum of A[i, :]; block S."""
    a = te.placeholder((n, m), name="A")
    r = te.reduce_axis((0, m), name="r")
    s = te.compute((n,), lambda i: te.sum(a[i, r], axis=r), name="S")
    return create_prim_func([a, s])


def row_scale(n: int = 9, m: int = 14) -> PrimFunc:
    """S[i] = sum of A[i, :]; D = A / S; blocks S, D."""
    a = te.placeholder((n, m), name="A")
    r = te.reduce_axis((0, m), name="r")
    s = te.compute((n,), lambda i: te.sum(a[i, r], axis=r), name="S")
    d = te.compute((n, m), lambda i, j: a[i, j] / s[i], name="D")
    return create_prim_func([a, d])


def row_scale_plus(n: int = 5, m: int = 6) -> PrimFunc:
    """S[i] = sum of A[i, :]; D = A / S; E = D + 1; blocks S, D, E."""
    a = te.placeholder((n, m), name="A")
    r = te.reduce_axis((0, m), name="r")
    s = te.compute((n,), lambda i: te.sum(a[i, r], axis=r), name="S")
    d = te.compute((n, m), lambda i, j: a[i, j] / s[i], name="D")
    e = te.compute((n, m), lambda i, j: d[i, j] + 1.0, name="E")
    return create_prim_func([a, e])


def softmax(n: int = 5, m: int = 6) -> PrimFunc:
    """Softmax of the rows; blocks T_softmax_maxelem, T_softmax_exp, T_softmax_expsum, T_softmax_norm."""
    a = te.placeholder((n, m), name="A")
    return create_prim_func([a, topi_softmax(a)])


def stencils(n: int = 9) -> PrimFunc:
    """B = A * 2; C[i] = B[i] + B[i + 2]; D[i] = C[i] - C[i + 1] + B[i + 1]; blocks B, C, D."""
    a = te.placeholder((n + 3,), name="A")
    b = te.compute((n + 3,), lambda i: a[i] * 2.0, name="B")
    c = te.compute((n + 1,), lambda i: b[i] + b[i + 2], name="C")
    d = te.compute((n,), lambda i: c[i] - c[i + 1] + b[i + 1], name="D")
    return create_prim_func([a, d])


def conv(channels: int = 2, height: int = 5, width: int = 7, filters: int = 3, stride: int = 1) -> PrimFunc:
    """3x3 convolution with padding 1; blocks pad_temp, conv2d_nchw."""
    data = te.placeholder((1, channels, height, width), name="data")
    kernel = te.placeholder((filters, channels, 3, 3), name="kernel")
    return create_prim_func([data, kernel, conv2d_nchw(data, kernel, stride=stride, padding=1)])


def gathered(rows: int = 7, n: int = 9) -> PrimFunc:
    """C[i, j] = A[(i * 3 + j) % rows] + A[(i * 3 + j) % rows // 2] for j in 5; block C."""
    a = te.placeholder((rows,), name="A")
    at = lambda i, j: (i * 3 + j) % rows  # noqa: E731
    return create_prim_func([a, te.compute((n, 5), lambda i, j: a[at(i, j)] + a[at(i, j) // 2], name="C")])


def in_place(n: int = 10, m: int = 7) -> PrimFunc:
    """B = A * 2; B = B * B + 1 in place; C = B * 3; blocks B, U, C."""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {m})), C: T.Buffer(({n}, {m}))):
    B = T.alloc_buffer(({n}, {m}))
    for i, j in T.grid({n}, {m}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * 2.0
    for i, j in T.grid({n}, {m}):
        with T.block("U"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = B[vi, vj] * B[vi, vj] + 1.0
    for i, j in T.grid({n}, {m}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 3.0
""")


def outputs(func: PrimFunc, seed: int = 0) -> np.ndarray:
    """The last argument after a run on random inputs; what it does not write is NaN."""
    arrays = _arguments(func, seed)
    run(func, *arrays)
    return arrays[-1]


def native_outputs(func: PrimFunc, seed: int = 0) -> np.ndarray:
    """`outputs` of the machine code of `func`."""
    given = [array(a) for a in _arguments(func, seed)]
    build(func, target="llvm")(*given)
    return given[-1].numpy()


def _arguments(func: PrimFunc, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [tuple(int(d) for d in func.buffer_map[p].shape) for p in func.params]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    arrays[-1][...] = np.nan
    return arrays


def check_same(scheduled: Schedule | PrimFunc, func: PrimFunc) -> None:
    """The scheduled function computes what the function it was made of does."""
    after = scheduled.func if isinstance(scheduled, Schedule) else scheduled
    np.testing.assert_allclose(outputs(after), outputs(func), rtol=2e-5, atol=1e-5)


def check_everywhere(sch: Schedule, func: PrimFunc) -> None:
    """The scheduled function is well formed and computes what `func` does, with blocks, lowered, and as machine code;
    its trace makes it again."""
    verify(sch.func, LoweringStage.BLOCKS)
    wanted = outputs(func)
    for found in (outputs(sch.func), outputs(lower_func(sch.func)), native_outputs(sch.func)):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)
    again = apply_trace(func, Trace.from_json(sch.trace.to_json()))
    assert again.func.script() == sch.func.script()
    written = Schedule(func)
    exec(sch.trace.to_python("written"), {"written": written})
    assert written.func.script() == sch.func.script()


def check_refused(func: PrimFunc, steps: Callable[[Schedule], object], primitive: str, rule: str) -> None:
    """The last of `steps` is refused: the error names the primitive and the rule, and points into the loops."""
    sch = Schedule(func, seed=0)
    with pytest.raises(ScheduleError) as caught:
        steps(sch)
    first, _, nest = caught.value.message.partition("\n")
    assert first.startswith(f"{primitive}: ")
    assert rule in first
    assert "block " in nest
    assert "  <--" in nest


def body(sch: Schedule) -> str:
    """The function's text without its head, less indented."""
    lines = sch.func.script().splitlines()
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith("T.func_attr")) + 1
    return "\n".join(line[4:] for line in lines[start:]) + "\n"
