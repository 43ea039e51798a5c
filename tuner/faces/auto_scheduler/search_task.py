"""A task: a computation on a target, to be tuned, and the best of what was found for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from compiler.target.target import Target
from compiler.te.tensor import Tensor
from tuner.faces.auto_scheduler.compute_dag import ComputeDAG, no_layout_rewrite
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.hardware import HardwareParams
from tuner.faces.auto_scheduler.workload_registry import (
    WORKLOAD_FUNC_REGISTRY,
    make_workload_key,
    register_workload,
    register_workload_tensors,
)
from tuner.records.store import RecordStore
from tuner.task import TuningTask

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.search_policy import SearchPolicy
    from tuner.faces.auto_scheduler.state import State
    from tuner.faces.auto_scheduler.tuning_options import TuningOptions


class SearchTask:
    """A computation to tune, given in one of three ways.

    It is a workload function (registered or not) with `args`, a `workload_key`, or a `compute_dag`. `target`
    defaults to the current one, else this machine.

    Raises SchedulerError for none or several of these, and for options that there are not: layout rewriting and
    inputs of one's own (`task_inputs`); TargetError.
    """

    def __init__(
        self, func: Any = None, args: Sequence[Any] | None = None, compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None, target: Any = None, target_host: Any = None,
        hardware_params: HardwareParams | None = None, layout_rewrite_option: Any = None, task_inputs: Any = None,
        task_inputs_overwrite: bool = False, task_inputs_save_to_file: bool = False, desc: str = "",
    ) -> None:  # fmt: skip
        no_layout_rewrite(layout_rewrite_option)
        if task_inputs or task_inputs_overwrite or task_inputs_save_to_file:
            raise SchedulerError("task_inputs are not there: devices fill arguments themselves", hint="leave them out")
        if func is None and workload_key is None and compute_dag is None:
            raise SchedulerError("a task needs func and args, a workload_key, or a compute_dag")
        if func is not None and workload_key is not None:
            raise SchedulerError("a task is given by func and args or by its workload_key, not by both")
        if func is not None:
            if args is None:
                raise SchedulerError("func needs args: what it is called with")
            if callable(func) and func not in WORKLOAD_FUNC_REGISTRY.values():
                register_workload(func)
            workload_key = make_workload_key(func, args)
        elif workload_key is None:
            assert compute_dag is not None
            workload_key = register_workload_tensors(compute_dag.workload_key(), compute_dag.tensors)
        chosen = Target.current_or_default() if target is None else Target(target)
        chosen = chosen if target_host is None else Target(chosen, host=target_host)
        self._set(workload_key, chosen, hardware_params or HardwareParams(target=chosen, target_host=target_host), desc)
        self.layout_rewrite_option = layout_rewrite_option
        self.compute_dag = compute_dag or ComputeDAG(workload_key)

    @staticmethod
    def recorded(workload_key: str, target: Target, hardware_params: HardwareParams) -> SearchTask:
        """The task of a record, whose workload need not be registered until its computation is asked for."""
        task = object.__new__(SearchTask)
        task._set(workload_key, target, hardware_params, "")
        task.layout_rewrite_option = None
        return task

    def _set(self, workload_key: str, target: Target, hardware_params: HardwareParams, desc: str) -> None:
        self.workload_key = workload_key
        self.target, self.target_host = target, target.host
        self.hardware_params = hardware_params
        self.desc = desc

    @cached_property
    def compute_dag(self) -> ComputeDAG:
        """The computation."""
        return ComputeDAG(self.workload_key)

    @property
    def tuning_task(self) -> TuningTask:
        """The task in the engine's terms: the target resolved, with the number of cores."""
        target = self.target.resolved()
        if target.num_cores is None:
            target = Target({**target.export(), "num-cores": self.hardware_params.num_cores})
        return TuningTask(self.desc or self.workload_key, self.compute_dag.func, target)

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None, adaptive_training: bool = False,
        *, store: RecordStore | str | Path | None = None,
    ) -> None:  # fmt: skip
        """Search for a fast schedule.

        What is measured goes to the options' callbacks as it comes, and to `store` (a path, an address or an open
        store) where one is given. `search_policy` defaults to `SketchPolicy(self)`. `adaptive_training` is ignored; it
        is accepted for compatibility with TVM. Raises SchedulerError for options that make no sense, TuningError when
        the task cannot be tuned, NoDevicesError.
        """
        _actions().tune(self, tuning_options, search_policy, store)

    def apply_best(
        self, log_file: Any, include_compatible: bool = False, layout_rewrite_option: Any = None
    ) -> tuple[Any, list[Tensor]]:
        """The schedule and arguments of the fastest record in a log, for `tvm.lower` and `tvm.build`. With
        `include_compatible` also of records made for other sizes. Raises SchedulerError when the log has none."""
        no_layout_rewrite(layout_rewrite_option)
        state = self._best_state(log_file, include_compatible)
        return self.compute_dag.apply_steps_from_state(state)

    def print_best(self, log_file: Any, print_mode: str = "schedule") -> str:
        """Return the fastest record in a log as text.
        It is the Python calls that make the schedule (`schedule`), or the LLVM IR of what is built from it (`llvm`)."""
        state = self._best_state(log_file, False)
        match print_mode:
            case "schedule":
                return self.compute_dag.print_python_code_from_state(state)
            case "llvm":
                from compiler.driver.build import compile_artifact

                return compile_artifact(state.schedule.func, self.target, "main").blobs["ll"].decode()
        raise SchedulerError(f"there is no print_mode {print_mode!r}", hint="known: schedule, llvm")

    def _best_state(self, log_file: Any, include_compatible: bool) -> Any:
        state = _actions().best_state(self, log_file, include_compatible)
        if state is None:
            raise SchedulerError(
                f"{log_file} has no record of {self.workload_key} on {self.target}",
                hint="tune it first, with measure_callbacks=[auto_scheduler.RecordToFile(…)]",
            )
        return state

    def __repr__(self) -> str:
        return f"SearchTask({self.workload_key}, target={str(self.target)!r})"


class TaskActions(Protocol):
    """The interface of the modules that are made of tasks (`task_actions`)."""

    def tune(
        self,
        task: SearchTask,
        options: TuningOptions,
        policy: SearchPolicy | None,
        store: RecordStore | str | Path | None,
    ) -> None:
        """Do what `SearchTask.tune` says."""

    def best_state(self, task: SearchTask, log_file: Any, include_compatible: bool) -> State | None:
        """The state of the fastest record in a log, None when it has none."""


_told: list[TaskActions] = []


def act_with(actions: TaskActions) -> None:
    """Let every task act by `actions`."""
    _told[:] = [actions]


def _actions() -> TaskActions:
    if not _told:
        raise SchedulerError("tasks cannot act yet", hint="import tuner.faces.auto_scheduler.task_actions")
    return _told[0]

