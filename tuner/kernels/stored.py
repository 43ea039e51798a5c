"""Kernels of models that the record store knows.

Tuned from their functions' scripts, without the model's file.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from compiler.errors import TunefarmError
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tuner.engine.options import RunOptions
from tuner.engine.run_recorder import write_down
from tuner.errors import TuningError
from tuner.kernels.spec import SpecError
from tuner.records.model import Run, RunState
from tuner.records.model_store.facts import ModelTask, ModelVersion
from tuner.records.store import RecordStore
from tuner.task import TuningTask


def stored_record(version: ModelVersion, task: ModelTask) -> dict[str, Any]:
    """Return what a run's options keep of a kernel of a stored model."""
    return {
        "model": version.model,
        "version": version.digest,
        "workload": task.workload_key,
        "name": task.name,
        "weight": task.calls,
    }


def is_stored(record: Mapping[str, Any]) -> bool:
    """Whether a run's record is of a kernel of a stored model."""
    return "workload" in record and "version" in record


def stored_kernel(record: Mapping[str, Any], store: RecordStore | None) -> PrimFunc:
    """The function that a record names. Raises SpecError where the store lacks it."""
    key = str(record["workload"])
    found = None if store is None else store.workloads.find(key)
    if found is None or not found.function:
        raise SpecError(f"the store has no function of the kernel {record['name']}", hint="tune the model's file")
    return function_of(found.function, key)


def function_of(script: str, key: str) -> PrimFunc:
    """The function of a script.
    Raises SpecError for a text that is no function, or not the one with this key."""
    try:
        func = from_source(script)
    except TunefarmError as error:
        raise SpecError(f"the function of workload {key[:12]} is no script of this version: {error.message}") from None
    if not isinstance(func, PrimFunc) or workload_key(func) != key:
        raise SpecError(f"the function of workload {key[:12]} is another one")
    return func


def check_profilable(version: ModelVersion) -> None:
    """Raise TuningError for a version that cannot be run from the store.
    It is without its file, or of a kind of file that may run code."""
    if version.form != "onnx":
        hint = f"run it where its file is: tunefarm run {version.model}.{version.form} --record --profile"
        raise TuningError(f"a .{version.form} file may run code, so it is not run from the store", hint=hint)
    if not version.kept:
        hint = f"send it: tunefarm models add {version.model}.onnx --send"
        raise TuningError(f"the store does not hold the file of {version.model}", hint=hint)


def queue_model(
    store: RecordStore, version: ModelVersion, target: str, *, trials: int, key: str = "", user: str = ""
) -> Run:
    """Record a run of a stored model's kernels that has not begun; `trials` for each of them.

    `tunefarm tune --resume` takes it up. Raises TuningError for a model without kernels for that kind of target, and
    for kernels whose functions the store lacks.
    """
    where = Target(target)
    tasks = store.models.tasks(version.id, where.kind.name)
    if not tasks:
        raise TuningError(f"{version.model} has no kernels for {where.kind.name} in the store")
    records = tuple(stored_record(version, task) for task in tasks)
    searched = [TuningTask(task.name, stored_kernel(record, store), where) for task, record in zip(tasks, records)]
    options = RunOptions(trials=trials, target=str(where), workloads=records)
    words = ["tunefarm", "models", "tune", version.model, "--trials", str(trials), "--target", str(where)]
    words += ["--version", version.digest[:12], *(["--key", key] if key else [])]
    run = write_down(store, searched, options, shlex.join(words), user=user, state=RunState.QUEUED)
    store.models.link_run(version.id, run.id)
    return run
