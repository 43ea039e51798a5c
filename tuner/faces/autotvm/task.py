"""Templates and tasks of autotvm.

A template is a function from sizes to a te schedule that reads its decisions from a config. A task is a template
with its arguments, for a target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from compiler.errors import TunefarmError
from compiler.target.target import Target
from compiler.te.prim_func import create_prim_func
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule
from compiler.te.tensor import PlaceholderOp, topological
from compiler.tir.nodes import PrimFunc
from tuner.faces.autotvm.dispatch_context import ApplyConfig, DispatchContext, Workload
from tuner.faces.autotvm.errors import ConfigError, InstantiationError
from tuner.faces.autotvm.space import Config, ConfigEntity, ConfigSpace
from tuner.faces.common.arguments import deserialize_args, serialize_args
from tuner.task import count_flops

Template = Callable[..., tuple[Schedule, Sequence[Any]]]
TASK_TABLE: dict[str, Template] = {}


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> Workload:
    """Return what identifies a workload: the template's name and its arguments as data."""
    head = () if task_name is None else (task_name,)
    return (*head, *serialize_args(args))


# ---------------------------------------------------------------------------------- templates


def template(task_name: str, func: Template | None = None) -> Any:
    """Register `func` as the template `task_name`; without `func`, a decorator that does.

    The function that comes out builds with the config that the current dispatch context gives: the best one
    recorded within `with autotvm.apply_history_best(log):`, else first choices. Raises ConfigError for a name that
    another function has.
    """

    def decorate(func: Template) -> Template:
        register_task(task_name, func)

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> tuple[Schedule, Sequence[Any]]:
            if kwargs:
                raise ConfigError(
                    f"template {task_name!r} takes its arguments by position, got {', '.join(kwargs)}",
                    hint="positions are what identifies a workload",
                )
            config = DispatchContext.current.query(Target.current(), args_to_workload(args, task_name))
            with ApplyConfig(config):
                return func(*args)

        wrapper.template_name = task_name  # type: ignore[attr-defined]
        return wrapper

    return decorate if func is None else decorate(func)


def register_task(name: str, func: Template) -> None:
    known = TASK_TABLE.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (func.__module__, func.__qualname__):
        raise ConfigError(f"template {name!r} is {known.__module__}.{known.__qualname__} already")
    TASK_TABLE[name] = func  # the same function again: its cell or module was run anew


def get_config() -> Any:
    """The config that the running template is to follow. Raises ConfigError outside of one."""
    current = DispatchContext.current
    if not isinstance(current, ApplyConfig):
        raise ConfigError("get_config is called by templates", hint="make a task of it: autotvm.task.create")
    return current.query(None, None)


# -------------------------------------------------------------------------------------- tasks


class Task:
    """A template with its arguments (as data).
    `config_space` and `target` are set by `create`; a task read from a record has neither space nor template until
    its module is imported."""

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = tuple(args)
        self.kwargs: dict[str, Any] = {}
        self.target: Target | None = None
        self.target_host: Target | None = None
        self.config_space = ConfigSpace()
        self._untuned: PrimFunc | None = None

    @property
    def workload(self) -> Workload:
        return (self.name, *self.args)

    @property
    def func(self) -> Template:
        """The template. Raises ConfigError when there is none of the task's name."""
        if self.name not in TASK_TABLE:
            known = ", ".join(TASK_TABLE) or "none"
            raise ConfigError(
                f"no template is called {self.name!r}", hint=f"import the module that defines it; registered: {known}"
            )
        return TASK_TABLE[self.name]

    @property
    def flop(self) -> float:
        """Operations of a call: what the template said with `add_flop`, else counted."""
        return self.config_space.flop or count_flops(self.untuned)

    @property
    def untuned(self) -> PrimFunc:
        """The definition without any schedule: what candidates' outputs are compared with."""
        if self._untuned is None:
            _, args = self._call(ConfigSpace())
            self._untuned = create_prim_func(list(args), name="main")
        return self._untuned

    def instantiate(self, config: ConfigEntity) -> tuple[Schedule, Sequence[Any]]:
        """The schedule and its arguments with `config`.
        Raises InstantiationError if the template says, or its schedule shows, that it is invalid."""
        config.errors.clear()
        config.flop = 0.0
        try:
            schedule, args = self._call(config)
        except TunefarmError as error:
            raise InstantiationError(f"{self.name} with {config}: {error.message}", hint=error.hint) from error
        if not config.valid():
            raise InstantiationError(f"{self.name} with {config}: {'; '.join(config.errors)}")
        return schedule, args

    def prim_func(self, config: ConfigEntity) -> PrimFunc:
        """The scheduled function as `config` has it. Raises InstantiationError."""
        schedule, args = self.instantiate(config)
        try:
            return schedule_to_func(schedule, args, "main")
        except TunefarmError as error:
            raise InstantiationError(f"{self.name} with {config}: {error.message}", hint=error.hint) from error

    def _call(self, config: Config) -> tuple[Schedule, Sequence[Any]]:
        func = self.func
        with ApplyConfig(config), self.target or Target("llvm"):
            return func(*deserialize_args(self.args))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and (self.workload, str(self.target)) == (other.workload, str(other.target))

    def __hash__(self) -> int:
        return hash((self.workload, str(self.target)))

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def create(task_name: str | Template, args: Sequence[Any], target: Any, target_host: Any = None) -> Task:
    """Return a task of a registered template (name or function), with its config space worked out.

    Raises ConfigError when there is no such template, TargetError.
    """
    name = task_name if isinstance(task_name, str) else getattr(task_name, "template_name", None)
    if name is None:
        raise ConfigError(f"{task_name!r} is no template", hint="decorate it: @autotvm.template(name)")
    task = Task(name, serialize_args(args))
    task.target = Target(target) if target_host is None else Target(target, host=target_host)
    task.target_host = task.target.host
    space = ConfigSpace()
    _, arrays = task._call(space)
    task.config_space = space
    task._untuned = create_prim_func(list(arrays), name="main")
    return task


def compute_flop(sch: Schedule) -> int:
    """Count the operations of a call of what a schedule computes.

    Raises ConfigError where it computes nothing with floats or integers, such as a copy: say `add_flop` there.
    """
    outputs = [op.output(index) for op in sch.outputs for index in range(op.num_outputs)]
    inputs = [op.output(0) for op in topological(outputs) if isinstance(op, PlaceholderOp)]
    found = count_flops(create_prim_func([*inputs, *outputs], name="main"))
    if not found:
        raise ConfigError("the schedule has no operations to count", hint="say how many in the template: cfg.add_flop")
    return int(found)
