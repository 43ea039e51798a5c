"""A program's own functions that build and measure candidates, and the defaults for them.

They run in a process that is forked for the candidate, so that a crash or an endless loop costs one candidate.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from compiler.driver.build import build
from compiler.errors import TunefarmError
from compiler.runtime.core.device import device as device_of
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.core.registry import get_global_func
from compiler.runtime.load import load_module
from tuner.faces.meta_schedule.measure_types import BuilderInput, BuilderResult, RunnerInput, RunnerResult

Hook = Callable[..., Any] | str | None


@dataclass(frozen=True)
class EvaluatorConfig:
    """How a kernel is timed: `repeat` samples, each the mean of `number` calls or more.
    A sample is at least `min_repeat_ms` long."""

    number: int = 3
    repeat: int = 1
    min_repeat_ms: int = 100
    enable_cpu_cache_flush: bool = False


@dataclass(frozen=True)
class RunHooks:
    """The functions that a runner was given; None for what it does itself."""

    create_session: Hook = None
    upload_module: Hook = None
    alloc_argument: Hook = None
    run_evaluator: Hook = None
    cleanup: Hook = None
    initializer: Hook = None

    def __post_init__(self) -> None:
        for field in fields(self):
            named(getattr(self, field.name))

    def any(self) -> bool:
        """Whether one was given."""
        return any(getattr(self, field.name) is not None for field in fields(self))


def named(hook: Hook) -> Callable[..., Any] | None:
    """Return the function of a hook, looked up where it is a name. Raises for a name that is not registered."""
    return get_global_func(hook) if isinstance(hook, str) else hook


def call_apart(function: Callable[[], Any], timeout_s: float) -> tuple[Any, str | None]:
    """Call a function in a forked process.

    Returns what it returned and None, or None and why it gave nothing.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, function), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll(timeout_s):
            return None, f"Timeout: it took longer than {timeout_s} s"
        found: tuple[Any, str | None] = here.recv()
    except EOFError:
        process.join()
        return None, f"the process ended with status {process.exitcode}"
    else:
        return found
    finally:
        process.kill()
        process.join()
        here.close()


def _answer(there: Connection, function: Callable[[], Any]) -> None:
    try:
        answer: tuple[Any, str | None] = function(), None
    except BaseException:  # the program's own code must cost one candidate and keep its trace
        answer = None, traceback.format_exc(limit=-8)
    there.send(answer)


# ------------------------------------------------------------------------------------ building


def build_with(
    f_build: Hook, f_export: Hook, initializer: Hook, given: BuilderInput, timeout_s: float
) -> BuilderResult:
    """Build one candidate by a program's functions."""

    def work() -> str:
        if (begin := named(initializer)) is not None:
            begin()
        made = (named(f_build) or default_build)(given.mod, given.target, given.params)
        return str((named(f_export) or default_export)(made))

    return BuilderResult(*call_apart(work, timeout_s))


def default_build(mod: Any, target: Any, params: Any = None) -> Any:
    """Build a module as `tvm.build` does. `params` is ignored."""
    return build(mod, target=target)


def default_export(mod: Any) -> str:
    """Write a module's artifact to a file of its own, and return the path."""
    path = Path(tempfile.mkdtemp(prefix="tunefarm-build-"), "main.tfa")
    path.write_bytes(mod.artifact.to_bytes())
    return str(path)


# ------------------------------------------------------------------------------------- running


def run_here(
    hooks: RunHooks, given: RunnerInput, config: EvaluatorConfig, alloc_repeat: int, timeout_s: float
) -> RunnerResult:
    """Measure one candidate on this machine, by a program's functions where it gave some."""

    def work() -> list[float]:
        if (begin := named(hooks.initializer)) is not None:
            begin()
        device = device_of(given.device_type, 0)
        try:
            module = load_module(given.artifact_path)
            infos = [info.as_json() for info in given.args_info]
            repeated = (named(hooks.alloc_argument) or alloc_argument)(device, infos, alloc_repeat)
            costs = (named(hooks.run_evaluator) or run_evaluator)(module, device, config, repeated)
            return [float(cost) for cost in costs]
        finally:
            if (clean := named(hooks.cleanup)) is not None:
                clean()

    return RunnerResult(*call_apart(work, timeout_s))


def run_remotely(
    hooks: RunHooks, given: RunnerInput, config: EvaluatorConfig, alloc_repeat: int, timeout_s: float,
    connect: Callable[[], Any], rpc_config: Any,
) -> RunnerResult:  # fmt: skip
    """Measure one candidate on a device that `connect` leases.
    The program's functions are called where it gave some."""

    def work() -> list[float]:
        if (begin := named(hooks.initializer)) is not None:
            begin()
        create = named(hooks.create_session)
        session = connect() if create is None else create(rpc_config)
        device = session.device(given.device_type, 0)
        remote_path = Path(given.artifact_path).name
        try:
            module = (named(hooks.upload_module) or upload_module)(session, given.artifact_path, remote_path)
            infos = [info.as_json() for info in given.args_info]
            repeated = (named(hooks.alloc_argument) or alloc_remote)(session, device, infos, alloc_repeat)
            costs = (named(hooks.run_evaluator) or run_remote)(session, module, device, config, repeated)
            return [float(cost) for cost in costs]
        finally:
            (named(hooks.cleanup) or remove_remote)(session, remote_path)

    return RunnerResult(*call_apart(work, timeout_s))


def upload_module(session: Any, local_path: str, remote_path: str) -> Any:
    """Send a module's file to a device, and load it there."""
    session.upload(local_path, remote_path)
    return session.load_module(remote_path)


def remove_remote(session: Any | None, remote_path: str | None) -> None:
    """Remove a module's file from a device."""
    if session is not None and remote_path is not None:
        session.remove(remote_path)


def alloc_argument(device: Any, args_info: Sequence[Any], alloc_repeat: int) -> list[list[Any]]:
    """Make `alloc_repeat` lists of arguments with random values, as `TensorInfo.as_json` describes them."""
    random = np.random.default_rng(0)
    return [[_filled(info, device, random) for info in args_info] for _ in range(alloc_repeat)]


def run_evaluator(module: Any, device: Any, config: EvaluatorConfig, repeated_args: Sequence[Sequence[Any]]) -> Any:
    """Time a module's entry function with each list of arguments; return the seconds of all repeats."""
    costs: list[float] = []
    for arguments in repeated_args:
        timed = module.time_evaluator(
            module.entry_name,
            device,
            number=config.number,
            repeat=config.repeat,
            min_repeat_ms=config.min_repeat_ms,
            f_preproc="cache_flush_cpu_non_first_arg" if config.enable_cpu_cache_flush else "",
        )
        device.sync()
        costs += timed(*arguments).results
    return costs


def alloc_remote(session: Any, device: Any, args_info: Sequence[Any], alloc_repeat: int) -> list[list[Any]]:
    """Make arguments on a device of a session, as `alloc_argument` does."""
    return alloc_argument(device, args_info, alloc_repeat)


def run_remote(session: Any, module: Any, device: Any, config: EvaluatorConfig, repeated_args: Any) -> Any:
    """Time a module of a session, as `run_evaluator` does."""
    return run_evaluator(module, device, config, repeated_args)


def _filled(info: Any, device: Any, random: np.random.Generator) -> Any:
    kind, dtype, shape = info
    if kind != "TENSOR":
        raise TunefarmError(f"an argument of kind {kind!r} is not filled here")
    extents = tuple(int(extent) for extent in shape)
    try:
        element = np.dtype(dtype)
    except TypeError:  # one that numpy does not know, such as bfloat16
        return empty(extents, dtype, device)
    return array(random.uniform(0, 10, size=extents).astype(element), device)
