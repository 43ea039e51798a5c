"""Workloads that the auto_scheduler tests tune."""

from __future__ import annotations

from tunefarm import auto_scheduler, te


@auto_scheduler.register_workload
def matmul_add(n, m, k, dtype):
    A = te.placeholder((n, k), name="A", dtype=dtype)
    B = te.placeholder((k, m), name="B", dtype=dtype)
    C = te.placeholder((n, m), name="C", dtype=dtype)
    r = te.reduce_axis((0, k), name="k")
    matmul = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="matmul")
    out = te.compute((n, m), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


def matmul_task(n: int = 64, m: int = 64, k: int = 64, target: str = "llvm", **options) -> auto_scheduler.SearchTask:
    return auto_scheduler.SearchTask(matmul_add, (n, m, k, "float32"), target=target, **options)


def state_of(task: auto_scheduler.SearchTask, split: int) -> auto_scheduler.State:
    """The matmul's outer loop split by a factor."""
    schedule = task.compute_dag.init_state.schedule
    schedule.split(schedule.get_loops(schedule.get_block("matmul"))[0], [None, split])
    return auto_scheduler.State(task.compute_dag.func, schedule.trace)


def record(task: auto_scheduler.SearchTask, split: int, cost: float | None):
    """A record of `state_of` with a made-up time, None for a failed trial."""
    failed = cost is None
    result = auto_scheduler.MeasureResult(
        () if failed else (cost,), 4 if failed else 0, "it crashed" if failed else "", 0.5, 100.0
    )
    return auto_scheduler.MeasureInput(task, state_of(task, split)), result
