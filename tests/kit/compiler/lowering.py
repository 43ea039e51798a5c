"""Workloads, random schedules and three-way agreement (interpreter, machine code, numpy) for lowering tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import stages
from compiler.errors import ScheduleError
from compiler.interp.interpreter import run
from compiler.ir.visit import walk
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import max as te_max
from compiler.te.reduction import reduce_axis
from compiler.te.reduction import sum as te_sum
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.intrin import exp, if_then_else
from compiler.tir.nodes import PrimFunc
from compiler.tir.verify import verify

HOST = Target("llvm").resolved()


# --------------------------------------------------------------------------------- workloads


def matmul(m: int, cols: int, depth: int, dtype: str = "float32") -> PrimFunc:
    a, b = placeholder((m, depth), dtype, name="A"), placeholder((depth, cols), dtype, name="B")
    k = reduce_axis((0, depth), name="k")
    c = compute((m, cols), lambda i, j: te_sum(a[i, k] * b[k, j], axis=k), name="C")
    return create_prim_func([a, b, c])


def conv2d(
    size: int, channels: int, filters: int, kernel: int = 3, stride: int = 1, dtype: str = "float32"
) -> PrimFunc:
    """NCHW, one image, padded by kernel // 2."""
    pad = kernel // 2
    data = placeholder((1, channels, size, size), dtype, name="data")
    weight = placeholder((filters, channels, kernel, kernel), dtype, name="weight")
    zero = ops.const(0, dtype)

    def padding(b: Any, c: Any, h: Any, w: Any) -> Any:
        inside = ops.logical_and(h >= pad, h < size + pad, w >= pad, w < size + pad)
        return if_then_else(inside, data[b, c, h - pad, w - pad], zero)

    padded = compute((1, channels, size + 2 * pad, size + 2 * pad), padding, name="padded")
    rc = reduce_axis((0, channels), name="rc")
    rh, rw = reduce_axis((0, kernel), name="rh"), reduce_axis((0, kernel), name="rw")
    out = (size + 2 * pad - kernel) // stride + 1
    conv = compute(
        (1, filters, out, out),
        lambda b, f, h, w: te_sum(
            padded[b, rc, h * stride + rh, w * stride + rw] * weight[f, rc, rh, rw], axis=[rc, rh, rw]
        ),
        name="conv",
    )
    return create_prim_func([data, weight, conv])


def chain(rows: int, cols: int, dtype: str = "float32") -> PrimFunc:
    """relu(x * 2 + y) in three operations."""
    x, y = placeholder((rows, cols), dtype, name="X"), placeholder((rows, cols), dtype, name="Y")
    double = compute((rows, cols), lambda i, j: x[i, j] * ops.const(2, dtype), name="double")
    total = compute((rows, cols), lambda i, j: double[i, j] + y[i, j], name="total")
    relu = compute((rows, cols), lambda i, j: ops.maximum(total[i, j], ops.const(0, dtype)), name="relu")
    return create_prim_func([x, y, relu])


def softmax(rows: int | n.Var, cols: int | n.Var) -> PrimFunc:
    x = placeholder((rows, cols), name="X")
    k1, k2 = reduce_axis((0, cols), name="k1"), reduce_axis((0, cols), name="k2")
    top = compute((rows,), lambda i: te_max(x[i, k1], axis=k1), name="top")
    power = compute((rows, cols), lambda i, j: exp(x[i, j] - top[i]), name="power")
    total = compute((rows,), lambda i: te_sum(power[i, k2], axis=k2), name="total")
    out = compute((rows, cols), lambda i, j: power[i, j] / total[i], name="out")
    return create_prim_func([x, out])


# --------------------------------------------------------------------------------- schedules


def tile_matmul(sch: Schedule, tile: tuple[int, int, int], columns_first: bool = False) -> MatmulTiles:
    """Sum tiles of (rows, columns) in a local array, some steps of the reduction at a time."""
    block = sch.get_block("C")
    (i0, i1), (j0, j1), (k0, k1) = (
        sch.split(loop, [None, size]) for loop, size in zip(sch.get_loops(block), tile, strict=True)
    )
    outer = (j0, i0) if columns_first else (i0, j0)
    sch.reorder(*outer, k0, k1, i1, j1)
    cache = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(cache, outer[1])
    return MatmulTiles(block, cache, i0, i1, j0, j1, k1)


class MatmulTiles(NamedTuple):
    block: BlockRV
    cache: BlockRV
    i0: LoopRV
    i1: LoopRV
    j0: LoopRV
    j1: LoopRV
    k1: LoopRV


def in_tiles(sch: Schedule, first: str, last: str) -> None:
    """Compute the block `first` for each tile of 4 x 8 of `last`; vectors along rows, threads along tiles."""
    i, j = sch.get_loops(sch.get_block(last))
    (i0, i1), (j0, j1) = sch.split(i, [None, 4]), sch.split(j, [None, 8])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(sch.get_block(first), j0)
    sch.vectorize(j1)
    vectorize_last(sch, sch.get_block(first))
    sch.parallel(i0)


def vectorize_last(sch: Schedule, block: BlockRV) -> None:
    sch.vectorize(sch.get_loops(block)[-1])


# --------------------------------------------------------------------------------- agreement


def arguments(func: PrimFunc, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """An array for each parameter: small integers, which floats add exactly enough to compare closely."""
    rng = np.random.default_rng(seed)
    found = []
    for param in func.params:
        buffer = func.buffer_map[param]
        shape = tuple(ops.as_int(d) for d in buffer.shape)
        dtype = np.dtype(buffer.dtype)
        if dtype.kind == "f":
            found.append(rng.standard_normal(shape).astype(dtype))
        elif dtype.kind == "b":
            found.append(rng.integers(0, 2, shape).astype(dtype))
        else:
            low = 0 if dtype.kind == "u" else -100
            found.append(rng.integers(low, 100, shape).astype(dtype))
    return found


def outputs_by_interpreter(func: PrimFunc, args: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    copies = [a.copy() for a in args]
    run(func, *copies)
    return copies


def outputs_by_machine(
    func: PrimFunc, args: list[np.ndarray[Any, Any]], target: Target = HOST
) -> list[np.ndarray[Any, Any]]:
    module = load_artifact(compile_artifact(func, target, name="main"))
    arrays = [array(a) for a in args]
    module["main"](*arrays)
    return [a.numpy() for a in arrays]


def assert_same(
    got: list[np.ndarray[Any, Any]], want: list[np.ndarray[Any, Any]], what: str, tolerance: float = 1e-4
) -> None:
    for i, (a, b) in enumerate(zip(got, want)):
        if b.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"{what}, argument {i}")
        else:
            np.testing.assert_array_equal(a, b, err_msg=f"{what}, argument {i}")


def assert_agreement(
    scheduled: PrimFunc,
    plain: PrimFunc | None = None,
    expected: Callable[..., Any] | None = None,
    tolerance: float = 1e-4,
    every_stage: bool = True,
) -> PrimFunc:
    """The scheduled function after every pass, and as machine code, does what the plain one does.

    `expected(*inputs)` gives the last argument by numpy. Returns the lowered function.
    """
    args = arguments(scheduled)
    want = outputs_by_interpreter(plain if plain is not None else scheduled, args)
    if expected is not None:
        assert_same(want[-1:], [np.asarray(expected(*args[:-1]))], "numpy", tolerance)
    lowered = scheduled
    for step, lowered in stages(scheduled, HOST.vector_bits):
        if step.gives is not None:
            verify(lowered, step.gives)
        if every_stage:
            assert_same(outputs_by_interpreter(lowered, args), want, step.title, tolerance)
    if not every_stage:
        assert_same(outputs_by_interpreter(lowered, args), want, "lowered", tolerance)
    assert_same(outputs_by_machine(scheduled, args), want, "machine code", tolerance)
    return lowered


# -------------------------------------------------------------------------- random schedules


def random_schedule(func: PrimFunc, seed: int) -> Schedule:
    """A schedule of random legal steps. Steps the engine refuses are left out."""
    rng = random.Random(seed)
    sch = Schedule(func)
    names = [node.name_hint for node in _blocks(func) if node.name_hint != "root"]
    for name in names[:-1]:
        if rng.random() < 0.3:
            _try(lambda name=name: sch.compute_inline(sch.get_block(name)))
    names = [name for name in names if _exists(sch, name)]
    for name in reversed(names):
        if rng.random() < 0.8:
            _tile(sch, name, rng)
    for name in reversed(names[:-1]):
        if rng.random() < 0.5:
            consumer = rng.choice(names[names.index(name) + 1 :])
            loop = rng.choice(sch.get_loops(sch.get_block(consumer)))
            _try(lambda name=name, loop=loop: sch.compute_at(sch.get_block(name), loop))
    for name in names:
        _mark(sch, name, rng)
    return sch


def _blocks(func: PrimFunc) -> list[n.Block]:
    return [node for node in walk(func.body) if isinstance(node, n.Block)]


def _exists(sch: Schedule, name: str) -> bool:
    return any(block.name_hint == name for block in _blocks(sch.func))


def _try(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except ScheduleError:
        return None


def _tile(sch: Schedule, name: str, rng: random.Random) -> None:
    block = sch.get_block(name)
    if rng.random() < 0.3:
        loops = sch.get_loops(block)
        if len(loops) > 1:
            at = rng.randrange(len(loops) - 1)
            _try(lambda: sch.fuse(loops[at], loops[at + 1]))
    parts = []
    for loop in sch.get_loops(block):
        factors = [None, *(rng.choice([1, 2, 3, 4, 5, 8, 16]) for _ in range(rng.randrange(0, 3)))]
        parts.append(list(_try(lambda loop=loop, factors=factors: sch.split(loop, factors)) or [loop]))
    order = [loop for level in range(3) for part in parts for loop in part[level : level + 1]]
    if rng.random() < 0.5:
        _try(lambda: sch.reorder(*order))
    loops = sch.get_loops(block)
    if rng.random() < 0.5:
        copy = _try(lambda: sch.cache_write(block, 0, rng.choice(["local", "global"])))
        if copy is not None:
            _try(lambda: sch.reverse_compute_at(copy, rng.choice(loops)))
            _mark(sch, sch.get(copy).name_hint, rng)
    if rng.random() < 0.5 and sch.get(block).reads:
        which = rng.randrange(len(sch.get(block).reads))
        copy = _try(lambda: sch.cache_read(block, which, rng.choice(["local", "global"])))
        if copy is not None:
            _try(lambda: sch.compute_at(copy, rng.choice(loops)))
            _mark(sch, sch.get(copy).name_hint, rng)


def _mark(sch: Schedule, name: str, rng: random.Random) -> None:
    """Vectorize, unroll and parallelise loops of a block here and there."""
    loops = sch.get_loops(sch.get_block(name))
    if rng.random() < 0.5:
        _try(lambda: sch.vectorize(loops[-1]))
    for loop in loops:
        extent = ops.as_int(sch.get(loop).extent)
        if extent is not None and extent <= 8 and rng.random() < 0.3:
            _try(lambda loop=loop: sch.unroll(loop))
    if rng.random() < 0.4:
        _try(lambda: sch.parallel(loops[0]))
    if rng.random() < 0.2:
        _try(lambda: sch.annotate(rng.choice(loops), "pragma_auto_unroll_max_step", rng.choice([4, 16, 64])))
