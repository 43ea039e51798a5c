"""Workloads by name: functions from sizes to te tensors, and the keys that stand for their calls."""

from __future__ import annotations

import base64
import json
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from compiler.te.tensor import Tensor
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.common.arguments import deserialize_args, serialize_args, tuples

WorkloadFunc = Callable[..., Sequence[Tensor]]
WORKLOAD_FUNC_REGISTRY: dict[str, WorkloadFunc | list[Tensor]] = {}


def register_workload(func_name: Any, f: WorkloadFunc | None = None, override: bool = False) -> Any:
    """Register a function that returns a computation's tensors, inputs and outputs, given its sizes.

    A decorator, `@register_workload` or `@register_workload("name")`, or a call. Raises SchedulerError for a name
    that another function has, unless `override`.
    """
    if callable(func_name):
        return _register(func_name.__name__, func_name, override)
    if not isinstance(func_name, str):
        raise SchedulerError(f"a workload's name is text, got {func_name!r}")
    if f is not None:
        return _register(func_name, f, override)
    return lambda func: _register(func_name, func, override)


def _register(name: str, func: WorkloadFunc, override: bool) -> WorkloadFunc:
    known = WORKLOAD_FUNC_REGISTRY.get(name)
    same = callable(known) and (known.__module__, known.__qualname__) == (func.__module__, func.__qualname__)
    if known is not None and not same and not override:
        raise SchedulerError(f"workload {name!r} is registered already", hint="pass override=True, or use another name")
    WORKLOAD_FUNC_REGISTRY[name] = func
    return func


def register_workload_tensors(workload_key: str, tensors: Sequence[Tensor], override: bool = True) -> str:
    """Let a key stand for these very tensors. Returns the key."""
    if workload_key in WORKLOAD_FUNC_REGISTRY and not override:
        raise SchedulerError(f"workload {workload_key!r} is registered already", hint="pass override=True")
    WORKLOAD_FUNC_REGISTRY[workload_key] = tensors if isinstance(tensors, list) else list(tensors)
    return workload_key


def workload_func_name(func: Any) -> str:
    """The registered name of a workload function, or the name itself.
    Raises SchedulerError when there is none."""
    if isinstance(func, str):
        if func not in WORKLOAD_FUNC_REGISTRY:
            raise SchedulerError(f"no workload is called {func!r}", hint=_known())
        return func
    name = next((name for name, known in WORKLOAD_FUNC_REGISTRY.items() if known is func), None)
    if name is None:
        hint = "decorate it: @auto_scheduler.register_workload"
        raise SchedulerError(f"{func!r} is no registered workload", hint=hint)
    return name


def make_workload_key(func: Any, args: Sequence[Any]) -> str:
    """The key of a registered function (or its name) called with `args`, such as `["matmul", 512, 512]`.
    Raises WorkloadArgumentError for an argument that is no number, text, None, tensor, or a list of these."""
    if isinstance(args, str) or not isinstance(args, Sequence):
        args = (args,)
    return json.dumps([workload_func_name(func), *serialize_args(args)])


def decode_workload_key(workload_key: str) -> tuple[str, tuple[Any, ...]]:
    """The name and the arguments in a key. Raises SchedulerError for a text that is none."""
    try:
        name, *args = json.loads(workload_key)
    except (TypeError, ValueError):
        raise SchedulerError(f"not the key of a workload: {workload_key!r}") from None
    return str(name), tuples(args)


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """The tensors of the computation that a key stands for.
    Raises SchedulerError when it is not registered."""
    known = WORKLOAD_FUNC_REGISTRY.get(workload_key)
    if isinstance(known, list):
        return known
    name, args = decode_workload_key(workload_key)
    func = WORKLOAD_FUNC_REGISTRY.get(name)
    if func is None or isinstance(func, list):
        raise SchedulerError(f"no workload is called {name!r}", hint=_known())
    return list(func(*deserialize_args(args)))


def _known() -> str:
    return f"import the module that registers it; registered: {', '.join(WORKLOAD_FUNC_REGISTRY) or 'none'}"


def shape_distance(workload_key: str, other_key: str) -> float:
    """Return how far apart the sizes of two workloads are: 1 for equal ones.
    It is infinity when they are of different functions or a size of one does not divide the other's."""
    (name, args), (other_name, other_args) = decode_workload_key(workload_key), decode_workload_key(other_key)
    return args_distance(args, other_args) if name == other_name else math.inf


def args_distance(args: tuple[Any, ...], other: tuple[Any, ...]) -> float:
    """How far apart two workloads' arguments are; see `shape_distance`."""
    if len(args) != len(other):
        return math.inf
    factor = 1.0
    for a, b in zip(args, other):
        if isinstance(a, tuple) and isinstance(b, tuple):
            factor *= args_distance(a, b)
        elif isinstance(a, int) and isinstance(b, int) and a > 0 and b > 0 and max(a, b) % min(a, b) == 0:
            factor *= max(a, b) / min(a, b)
        elif a != b:
            return math.inf
    return factor


def serialize_workload_registry_entry(workload_key: str) -> str:
    """Return the function or the tensors of a key, or of a function's name, as text for another process."""
    name = workload_key
    if workload_key not in WORKLOAD_FUNC_REGISTRY:
        name, _ = decode_workload_key(workload_key)
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise SchedulerError(f"no workload is called {name!r}", hint=_known())
    return base64.b64encode(pickle.dumps((name, WORKLOAD_FUNC_REGISTRY[name]))).decode()


def deserialize_workload_registry_entry(data: str) -> None:
    """Register what `serialize_workload_registry_entry` gave.
    It is code: take it from nobody you do not trust."""
    name, value = pickle.loads(base64.b64decode(data))
    WORKLOAD_FUNC_REGISTRY.setdefault(name, value)
