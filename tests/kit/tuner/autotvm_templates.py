"""Templates that the autotvm tests tune, and records of made-up times."""

from __future__ import annotations

from collections.abc import Callable

import tunefarm as tvm
from tunefarm import autotvm, te


@autotvm.template("test/matmul")
def matmul(n, k, m, dtype):
    """C = A · B with both axes of C tiled, the inner loop vectorised, and the order of the middle loops a knob."""
    A = te.placeholder((n, k), name="A", dtype=dtype)
    B = te.placeholder((k, m), name="B", dtype=dtype)
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    (z,) = s[C].op.reduce_axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2, filter=lambda e: e.size[-1] <= 64)
    cfg.define_knob("vectorize", [False, True])
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, z, yi, xi)
    if cfg["vectorize"].val:
        s[C].vectorize(xi)
    return s, [A, B, C]


def matmul_task(size: int = 64, target: str = "llvm") -> autotvm.Task:
    return autotvm.task.create("test/matmul", (size, size, size, "float32"), target)


def records(task: autotvm.Task, cost: Callable[[autotvm.ConfigEntity], float], indices):
    """(input, result) pairs of the configs at `indices`, with made-up times."""
    for index in indices:
        config = task.config_space.get(index)
        yield (
            autotvm.MeasureInput(tvm.Target("llvm"), task, config),
            autotvm.MeasureResult((cost(config),), 0, 0.1, 1.0),
        )
