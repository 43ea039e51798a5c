"""Tasks and a runner without devices, for tests of autotvm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.target.target import Target
from tunefarm import autotvm, te
from tunefarm.autotvm import MeasureInput, MeasureResult
from tunefarm.autotvm.measure.measure import Runner

__all__ = ["DummyRunner", "bad_matmul", "get_sample_records", "get_sample_task", "matmul"]

_TASK = "testing/matmul"


class DummyRunner(Runner):
    """Returns random times for builds, and runs none."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """One time for each input."""
        rng = np.random.default_rng()
        return [MeasureResult((float(rng.random()),), 0, 0.2, rng.random()) for _ in measure_inputs]

    def get_build_kwargs(self) -> dict[str, Any]:
        """Return what builds are given: nothing."""
        return {}


def matmul(N: int, L: int, M: int, dtype: str) -> tuple[Any, list[te.Tensor]]:
    """A product of matrices whose two output loops are split."""
    a, b = te.placeholder((N, L), name="A", dtype=dtype), te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    c = te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = te.create_schedule(c.op)
    stage = sch[c]
    y, x = stage.op.axis
    [k] = stage.op.reduce_axis
    config = autotvm.get_config()
    config.define_split("tile_y", y, num_outputs=2)
    config.define_split("tile_x", x, num_outputs=2)
    yo, yi = config["tile_y"].apply(sch, c, y)
    xo, xi = config["tile_x"].apply(sch, c, x)
    stage.reorder(yo, xo, k, yi, xi)
    return sch, [a, b, c]


def bad_matmul(N: int, L: int, M: int, dtype: str) -> tuple[Any, list[te.Tensor]]:
    """A product of matrices that binds a loop to a GPU thread, which a CPU cannot have."""
    sch, tensors = matmul(N, L, M, dtype)
    if "bad_device" in Target.current_or_default().keys:
        sch[tensors[2]].bind(sch[tensors[2]].leaf_iter_vars[0], te.thread_axis("threadIdx.x"))
    return sch, tensors


def get_sample_task(n: int = 128) -> tuple[Any, Target]:
    """A product of two matrices of n × n as a task, and its target."""
    autotvm.template(_TASK)(matmul)
    target = Target("llvm")
    return autotvm.task.create(_TASK, args=(n, n, n, "float32"), target=target), target


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """The first `n` configurations of a task with times that fall."""
    task, target = get_sample_task()
    inputs = [MeasureInput(target, task, task.config_space.get(i)) for i in range(n)]
    return [(given, MeasureResult((1.0 / (i + 1),), 0, 0.2, i)) for i, given in enumerate(inputs)]
