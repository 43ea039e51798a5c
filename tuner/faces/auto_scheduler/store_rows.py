"""Features of states, a row for each buffer that a state's program stores to, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from compiler.te.schedule.replay import schedule_to_func
from compiler.tir.nodes import PrimFunc
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
from tuner.faces.auto_scheduler.record import RecordReader
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.state import State
from tuner.faces.common.feature_rows import FeatureRows
from tuner.model.types import Floats, Ints

MOST_BUFFERS = 5

_OPERATIONS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
_PLACES = (
    "None", "InnerSpatial", "MiddleSpatial", "OuterSpatial", "InnerReduce", "MiddleReduce", "OuterReduce", "Mixed",
)  # fmt: skip
_BUFFER = (
    "acc_type.kRead", "acc_type.kWrite", "acc_type.kReadWrite", "bytes", "unique_bytes", "lines", "unique_lines",
    "reuse_type.kLoopMultipleRead", "reuse_type.kSerialMultipleReadWrite", "reuse_type.kNoReuse", "reuse_dis_iter",
    "reuse_dis_bytes", "reuse_ct", "bytes_d_reuse_ct", "unique_bytes_d_reuse_ct", "lines_d_reuse_ct",
    "unique_lines_d_reuse_ct", "stride",
)  # fmt: skip
_LAST = ("alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod", "outer_prod", "num_loops",
         "auto_unroll_max_step")  # fmt: skip


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """Return the name of each number of a row."""
    names = [f"{kind}_{what}" for kind in ("float", "int") for what in _OPERATIONS] + ["bool_op", "select_op"]
    for way in ("vec", "unroll", "parallel"):
        names += [f"{way}_num", f"{way}_prod", f"{way}_len", *(f"{way}_type.kPos{place}" for place in _PLACES)]
    names += ["is_gpu", *(f"{of}Idx_{axis}_len" for of in ("block", "thread") for axis in "xyz"), "vthread_len"]
    names += [f"B{at}.{what}" for at in range(max_n_bufs or MOST_BUFFERS) for what in _BUFFER]
    return [*names, *(f"arith_intensity_curve_{at}" for at in range(10)), *_LAST]


def get_per_store_features_from_states(
    states: Sequence[State | LoopState], task: SearchTask, max_n_bufs: int | None = None
) -> list[Floats]:
    """Return the rows of each state's program: see `FeatureRows`."""
    maker = FeatureRows(max_n_bufs or MOST_BUFFERS)
    return [maker.rows(_program(task, state)) for state in states]


def features_from_primfunc(
    func: PrimFunc, cache_line_bytes: int = 64, max_n_bufs: int | None = None, log_scale: bool = False
) -> Floats:
    """Return the rows of a scheduled function; counts are plain numbers, unless they are to be logarithms."""
    rows = FeatureRows(max_n_bufs or MOST_BUFFERS, cache_line_bytes=cache_line_bytes).rows(func)
    if log_scale:
        return rows
    names = get_per_store_feature_names(max_n_bufs)
    counts = np.array(["type." not in name and name != "is_gpu" for name in names])
    plain: Floats = np.where(counts, np.exp2(rows) - 1, rows)
    return plain


def named_features_from_primfunc(
    func: PrimFunc, cache_line_bytes: int = 64, max_n_bufs: int | None = None, log_scale: bool = False
) -> dict[str, Floats]:
    """Return the same by name: a number for each stored buffer."""
    rows = features_from_primfunc(func, cache_line_bytes, max_n_bufs, log_scale)
    return {name: rows[:, at] for at, name in enumerate(get_per_store_feature_names(max_n_bufs))}


def get_per_store_features_from_measure_pairs(
    inputs: Sequence[MeasureInput],
    results: Sequence[MeasureResult],
    skip_first_n_feature_extraction: int = 0,
    max_n_bufs: int | None = None,
) -> tuple[list[Floats], Floats, Ints]:
    """Return the rows of each input, its speed as a share of its task's best, and its task's number.

    The first inputs have no rows where they are to be skipped; an input that failed has speed 0.
    """
    tasks: dict[str, int] = {}
    features, numbers = [], []
    costs = np.array([result.cost if result.error_no == 0 else np.inf for result in results], np.float64)
    for at, item in enumerate(inputs):
        numbers.append(tasks.setdefault(item.task.workload_key, len(tasks)))
        skipped = at < skip_first_n_feature_extraction
        rows = [] if skipped else get_per_store_features_from_states([item.state], item.task, max_n_bufs)
        features.append(rows[0] if rows else np.zeros((0, len(get_per_store_feature_names(max_n_bufs)))))
    ids = np.array(numbers, np.int64)
    best = {number: costs[ids == number].min() for number in tasks.values()}
    shares = [best[number] / cost if np.isfinite(cost) else 0.0 for number, cost in zip(numbers, costs)]
    return features, np.array(shares, np.float64), ids


def get_per_store_features_from_file(
    filename: str | Path, max_lines: int, max_n_bufs: int | None = None
) -> tuple[list[Floats], Floats, Ints]:
    """Return the same of the first `max_lines` records of a log."""
    inputs, results = RecordReader(filename).read_lines(max_lines)
    return get_per_store_features_from_measure_pairs(inputs, results, max_n_bufs=max_n_bufs)


def _program(task: SearchTask, state: Any) -> PrimFunc:
    if isinstance(state, LoopState):
        schedule, tensors = task.compute_dag.apply_steps_from_state(state)
        return schedule_to_func(schedule, tensors, "main")
    func: PrimFunc = State(task.compute_dag.func, state.trace).schedule.func
    return func
