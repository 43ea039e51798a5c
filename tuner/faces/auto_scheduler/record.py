"""Tuning records as lines of JSON.

A line of our own is `{"i": [[workload_key, target, hardware, target_host, layout_rewrite, inputs], trace], "r":
[costs, error_no, all_cost, timestamp], "v": "tunefarm-1"}`: the frame of TVM's logs around a schedule trace. A line
of version "v0.6" has the steps of a loop state in the trace's place, as Apache TVM writes it. States that a program
made step by step are written that way, and read by both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.errors import ScheduleError, TargetError
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.hardware import HardwareParams
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.loop_steps import read_step
from tuner.faces.auto_scheduler.measure_callback import PythonBasedMeasureCallback
from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.state import State
from tuner.faces.auto_scheduler.workload_registry import shape_distance

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.search_policy import SearchPolicy

LOG_VERSION = "tunefarm-1"
TVM_LOG_VERSION = "v0.6"
_FAILED_COST = 1e10  # what the format has for the time of a failed trial


class AutoSchedulerRecordError(SchedulerError, kind="auto_scheduler_record"):
    """A line that is no record, or one that cannot be used here."""


class RecordToFile(PythonBasedMeasureCallback):
    """Appends each result to a log, at once: a run that is killed loses what was in flight."""

    def __init__(self, filename: str | Path) -> None:
        self.filename = Path(filename)
        if self.filename.parent != Path(""):
            self.filename.parent.mkdir(parents=True, exist_ok=True)

    def callback(self, policy: SearchPolicy, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        save_records(self.filename, inputs, results)


class RecordReader:
    """Reads a log. Iterating gives (input, result) pairs in order, from the beginning each time.

    Raises RecordError naming the line, OSError.
    """

    def __init__(self, filename: str | Path) -> None:
        self.filename = Path(filename)

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """The inputs and the results of up to `max_lines` records, after `skip_lines`."""
        stop = None if max_lines is None else skip_lines + max_lines
        pairs = list(islice(self, skip_lines, stop))
        return [inp for inp, _ in pairs], [result for _, result in pairs]

    def __iter__(self) -> Iterator[tuple[MeasureInput, MeasureResult]]:
        tasks: dict[str, SearchTask] = {}
        with self.filename.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip() or line.startswith("#"):
                    continue
                try:
                    yield _decode(line, tasks)
                except AutoSchedulerRecordError as error:
                    text = f"{self.filename}, line {number}: {error.message}"
                    raise AutoSchedulerRecordError(text, hint=error.hint) from None


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """The line of a record, without its end."""
    task = inp.task
    host = "" if task.target_host is None else str(task.target_host)
    head = [task.workload_key, str(task.target), task.hardware_params.to_json(), host, 0, []]
    costs = res.costs if res.error_no == 0 else [_FAILED_COST]
    state = inp.state
    steps = isinstance(state, LoopState)
    row = {
        "i": [head, state_rows(state) if isinstance(state, LoopState) else json.loads(state.trace.to_json())],
        "r": [costs, int(res.error_no), res.all_cost, res.timestamp],
        "v": TVM_LOG_VERSION if steps else LOG_VERSION,
    }
    return json.dumps(row)


def state_rows(state: LoopState) -> list[list[Any]]:
    """Return a state made of steps as logs of version `TVM_LOG_VERSION` have it."""
    return [[], [step.row() for step in state.transform_steps]]


def load_record_from_string(record: str) -> tuple[MeasureInput, MeasureResult]:
    """The input and result of a line. Raises RecordError."""
    return _decode(record, {})


def _decode(line: str, tasks: dict[str, SearchTask]) -> tuple[MeasureInput, MeasureResult]:
    """Read a line.
    `tasks` holds the tasks met before, by the lines' words for them, because making one runs the workload's
    function."""
    try:
        row = json.loads(line)
        version = row["v"]
    except (KeyError, TypeError, ValueError) as error:
        raise AutoSchedulerRecordError(f"not a record: {line[:80]!r} ({type(error).__name__}: {error})") from None
    if version not in (LOG_VERSION, TVM_LOG_VERSION):
        raise AutoSchedulerRecordError(
            f"a record of version {str(version)[:20]!r}, which is not known here",
            hint=f"versions: {LOG_VERSION}, {TVM_LOG_VERSION}",
        )
    try:
        head, trace = row["i"]
        costs, error_no, all_cost, timestamp = row["r"]
        known = json.dumps(head)
        task = tasks.get(known) or _task(head)
        tasks[known] = task
        state: State
        if version == TVM_LOG_VERSION:
            state = LoopState(lambda: task.compute_dag, [read_step(row) for row in trace[1]])
        else:
            state = State(lambda: task.compute_dag.func, Trace.from_json(json.dumps(trace)))
        times = tuple(float(c) for c in costs) if error_no == 0 else ()
        return MeasureInput(task, state), MeasureResult(times, int(error_no), "", float(all_cost), float(timestamp))
    except ScheduleError as error:
        raise AutoSchedulerRecordError(f"the record's trace is none: {error.message}") from None
    except TargetError as error:
        raise AutoSchedulerRecordError(f"the record is of a target that is not known here: {error.message}") from None
    except (IndexError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, SchedulerError):
            raise AutoSchedulerRecordError(error.message, hint=error.hint) from None
        raise AutoSchedulerRecordError(f"not a record: {line[:80]!r} ({type(error).__name__}: {error})") from None


def _task(head: list[Any]) -> SearchTask:
    key, target, hardware, host = head[:4]
    made_for = Target(target, host=host) if host else Target(target)
    return SearchTask.recorded(str(key), made_for, HardwareParams.from_json(hardware))


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Return a record's input with a task of its own, made of the workload.

    `rebuild_state` makes the state anew, too. Raises SchedulerError when the workload is not registered.
    """
    old = inp.task
    task = SearchTask(workload_key=old.workload_key, target=old.target, hardware_params=old.hardware_params)
    state = inp.state
    if isinstance(state, LoopState):
        state = LoopState(task.compute_dag, state.transform_steps)
    elif rebuild_state:
        state = State(task.compute_dag.func, state.trace)
    return MeasureInput(task, state)


def load_records(filename: str | Path) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    """The records of a log, in order. Raises RecordError naming the line, OSError."""
    return iter(RecordReader(filename))


def save_records(filename: str | Path, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
    """Append records to a log."""
    lines = [dump_record_to_string(inp, result) + "\n" for inp, result in zip(inputs, results, strict=True)]
    with Path(filename).open("a", encoding="utf-8") as file:
        file.write("".join(lines))


def load_best_record(
    filename: str | Path, workload_key: str | None = None, target: Any = None, include_compatible: bool = False
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """Return the fastest record of a log; (None, None) when there is none.
    It is of a workload and on a target where these are given. With `include_compatible` also of the same function
    called with other sizes."""
    wanted = None if target is None else str(Target(target))
    best: tuple[float, MeasureInput | None, MeasureResult | None] = (float("inf"), None, None)
    for inp, result in load_records(filename):
        if result.error_no != 0 or (wanted is not None and str(inp.task.target) != wanted):
            continue
        key = inp.task.workload_key
        if workload_key is None or key == workload_key:
            distance = 1.0
        else:
            distance = shape_distance(workload_key, key) if include_compatible else float("inf")
        if distance * result.cost < best[0]:
            best = distance * result.cost, inp, result
    return best[1], best[2]


def distill_record_file(in_file: str | Path, out_file: str | Path) -> None:
    """Write the fastest record of each workload on each target of one log to another."""
    best: dict[tuple[str, str], tuple[MeasureInput, MeasureResult]] = {}
    for inp, result in _succeeded(load_records(in_file)):
        key = inp.task.workload_key, str(inp.task.target)
        if key not in best or result.cost < best[key][1].cost:
            best[key] = inp, result
    Path(out_file).write_text("".join(dump_record_to_string(*pair) + "\n" for pair in best.values()), encoding="utf-8")


def _succeeded(pairs: Iterable[tuple[MeasureInput, MeasureResult]]) -> Iterator[tuple[MeasureInput, MeasureResult]]:
    return (pair for pair in pairs if pair[1].error_no == 0)
