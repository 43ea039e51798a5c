"""Find the state with which a workload is built: contexts are asked, the innermost first."""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import Any

from compiler.errors import ScheduleError
from compiler.target.target import Target
from tuner.faces.auto_scheduler.compute_dag import ComputeDAG
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_state import LoopState
from tuner.faces.auto_scheduler.measure_types import MeasureInput
from tuner.faces.auto_scheduler.record import load_records
from tuner.faces.auto_scheduler.state import State
from tuner.faces.auto_scheduler.workload_registry import args_distance, decode_workload_key
from tuner.faces.common.dispatch import HistoryTables, NestedContext, pairs_in

Args = tuple[Any, ...]
Entry = dict[Args, tuple[State, float]]  # by a workload's arguments: the fastest state and its seconds
BestRecords = dict[str, dict[str, Entry]]  # by target (its text, model or key), then by the workload's name


class DispatchContext(NestedContext):
    """Knows states for workloads. Outside of any `with`, none are known.

    `DispatchContext.current` is the innermost context, an empty one outside of any.
    """

    def query(
        self, target: Any, workload_key: str, has_complex_op: bool = False, dag: ComputeDAG | None = None,
        func_name: str = "",
    ) -> State | None:  # fmt: skip
        """The state for a workload on a target, None when no context knows one.
        With `dag` the state is of that computation. `has_complex_op` and `func_name` are ignored; they are accepted
        for compatibility with TVM."""
        found = self._query_inside(Target(target), workload_key, dag)
        if found is None and self.around is not None:
            return self.around.query(target, workload_key, has_complex_op, dag, func_name)
        return found

    def update(self, target: Any, workload_key: str, state: State) -> None:
        """Answer with `state` from now on."""
        raise SchedulerError("no context to update", hint="use one: with auto_scheduler.ApplyHistoryBest(log):")

    def _query_inside(self, target: Target, workload_key: str, dag: ComputeDAG | None) -> State | None:
        return None


_OUTERMOST = DispatchContext()
DispatchContext.innermost = ContextVar("auto_scheduler_dispatch", default=_OUTERMOST)


class ApplyHistoryBest(DispatchContext):
    """Answers with the fastest state recorded for a workload.

    It is one on the very target asked for, else on its `-model`, else on a target with one of its keys (`cpu`, …).
    `records` is a log file, an iterable of (input, result) pairs, or a list of these; of each, `n_lines` records count.
    With `include_compatible`, what was recorded for other sizes of the same workload is used where its schedule fits.
    """

    def __init__(self, records: Any, n_lines: int | None = None, include_compatible: bool = False) -> None:
        super().__init__()
        self.include_compatible = include_compatible
        self._tables: HistoryTables[BestRecords] = HistoryTables(dict)
        self.best_by_target = self._tables.by_target
        self.best_by_model = self._tables.by_model
        self.best_by_targetkey = self._tables.by_key
        self._given: BestRecords = {}
        self.load(records, n_lines)

    @staticmethod
    def get_workload_entry(best_records: BestRecords, target_key: str, workload_key: str) -> tuple[Entry, str, Args]:
        """Return what `best_records` holds of a workload on a target, its name and its arguments.
        It is made if there is nothing yet."""
        name, args = decode_workload_key(workload_key)
        return best_records.setdefault(target_key, {}).setdefault(name, {}), name, args

    def load(self, records: Any, n_lines: int | None = None) -> None:
        """Take more records in. Raises RecordError naming the line, OSError."""
        for inp, result in pairs_in(records, load_records, MeasureInput, n_lines):
            if result.error_no != 0:
                continue
            for table, name in self._tables.places(inp.task.target):
                entry, _, args = self.get_workload_entry(table, name, inp.task.workload_key)
                if args not in entry or result.cost < entry[args][1]:
                    entry[args] = inp.state, result.cost

    def update(self, target: Any, workload_key: str, state: State) -> None:
        """Answer with `state` for this workload, on the target, its model and its keys."""
        for name in HistoryTables.names(Target(target)):
            entry, _, args = self.get_workload_entry(self._given, name, workload_key)
            entry[args] = state, 1.0

    def _query_inside(self, target: Target, workload_key: str, dag: ComputeDAG | None) -> State | None:
        given = ((self._given, name) for name in HistoryTables.names(target))
        for table, name in (*given, *self._tables.places(target)):
            found = self._fitting(table, name, workload_key, dag)
            if found is not None:
                return found
        return None

    def _fitting(self, table: BestRecords, name: str, workload_key: str, dag: ComputeDAG | None) -> State | None:
        function, args = decode_workload_key(workload_key)
        entry = table.get(name, {}).get(function, {})
        if args in entry:
            state = entry[args][0]
            return state if dag is None else _moved(state, dag)
        if not self.include_compatible:
            return None
        known = sorted((args_distance(args, other) * cost, place, state)
                       for place, (other, (state, cost)) in enumerate(entry.items()))  # fmt: skip
        own = dag or ComputeDAG(workload_key)
        for far, _, state in known:
            if math.isfinite(far) and _applies(moved := _moved(state, own)):
                return moved
        return None


def _moved(state: State, dag: ComputeDAG) -> State:
    """Return `state` as one of the computation `dag`."""
    if isinstance(state, LoopState):
        return LoopState(dag, state.transform_steps)
    return State(dag.func, state.trace)


def _applies(state: State) -> bool:
    try:
        return state.schedule is not None
    except ScheduleError:
        return False
