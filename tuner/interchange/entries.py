"""Entries of a file of records: one a line, each complete enough to be put into another store.

Rows refer to each other by keys that are the same in every store. That is a workload's key, a run's identity, a
device's name and its attributes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec

from rpc_server.wire.trial_messages import FailureKind
from tuner.families.record import FamilyRecord
from tuner.families.sizes import FamilyError
from tuner.families.stored import key_now
from tuner.records.errors import InvalidRecord
from tuner.records.facts import copied, lines_with
from tuner.records.lookup.keys import fingerprint_digest
from tuner.records.model import (
    DeviceFacts,
    DeviceRecord,
    NewTrial,
    NewWorkload,
    Run,
    RunFacts,
    RunTaskFacts,
    Trial,
    TrialFacts,
    TrialPurpose,
    WorkloadFacts,
)
from tuner.records.model_store.facts import (
    GraphCall,
    KernelShare,
    Model,
    ModelTask,
    ModelTime,
    ModelTimeFacts,
    ModelVersion,
    NewModelTask,
    NewModelTime,
    NewModelVersion,
)
from tuner.records.parts.families import NewFamily, StoredFamily

FORMAT = "tunefarm.records"
VERSION = 1


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="entry"):
    """One line."""


class HeaderEntry(_Entry, frozen=True, kw_only=True, tag="header"):
    """The first line."""

    format: str = FORMAT
    version: int = VERSION
    written_by: str = ""


@lines_with(WorkloadFacts)
class WorkloadEntry(_Entry, frozen=True, kw_only=True, tag="workload"):
    """A workload. What `WorkloadFacts` has is in it."""

    key: str


@lines_with(DeviceFacts)
class DeviceEntry(_Entry, frozen=True, kw_only=True, tag="device"):
    """`ref` is how the trials of this file name it. What `DeviceFacts` has is in it too."""

    ref: str
    name: str
    device_class: str
    features: tuple[str, ...] = ()


@lines_with(RunTaskFacts)
class TaskEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task of a run: the workload's key and the target's text. What `RunTaskFacts` has is in it too."""

    workload: str
    target: str
    budget: int


@lines_with(RunFacts)
class RunEntry(_Entry, frozen=True, kw_only=True, tag="run"):
    """`ref` is the run's identity (`run_ref`), the same in every store the run is in.

    What `RunFacts` has is in it too. Devices were held for it for `held_s` seconds, and measured in `busy_s` of them.
    """

    ref: str
    name: str
    state: str
    message: str = ""
    options: Mapping[str, Any] = {}
    started_at: datetime
    finished_at: datetime | None = None
    held_s: float = 0.0
    busy_s: float = 0.0
    tasks: tuple[TaskEntry, ...]


@lines_with(TrialFacts)
class TrialEntry(_Entry, frozen=True, kw_only=True, tag="trial"):
    """A trial of the run named last; `sequence` counts them from 1. Times in seconds.

    What `TrialFacts` has is in it too.
    """

    sequence: int
    task: int
    purpose: str
    digest: str | None = None
    trace: str | None = None
    device: str | None = None
    samples: tuple[float, ...] = ()
    failure: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ModelTaskEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kernel of a model: its workload's key, its kind of target, its names and how often it is called."""

    workload: str
    kind: str
    names: tuple[str, ...]
    calls: int


class ModelEntry(_Entry, frozen=True, kw_only=True, tag="model"):
    """A version of a model, without its file: weights stay where their owner put them. `runs` tuned it."""

    owner: str = ""
    name: str
    readers: tuple[str, ...] = ()
    digest: str
    file_digest: str
    form: str
    sizes: Mapping[str, int] = {}
    file_bytes: int = 0
    created_by: str = ""
    graph: tuple[Mapping[str, Any], ...] = ()
    tasks: tuple[ModelTaskEntry, ...]
    runs: tuple[str, ...] = ()


@lines_with(ModelTimeFacts)
class ModelTimeEntry(_Entry, frozen=True, kw_only=True, tag="model_time"):
    """An end-to-end measurement of the version named last. `kernels` is its profile.

    What `ModelTimeFacts` has is in it too.
    """

    device: str
    target: str
    measured_at: datetime
    kernels: tuple[Mapping[str, Any], ...] = ()
    samples: tuple[float, ...]


class FamilyEntry(_Entry, frozen=True, kw_only=True, tag="family"):
    """A function at many sizes as it was tuned, by the run of this identity where one is known."""

    key: str
    name: str
    target: str
    device_class: str
    digest: str
    loss: float
    created_at: datetime
    run: str | None = None
    record: Mapping[str, Any]


class EndEntry(_Entry, frozen=True, kw_only=True, tag="end"):
    """The last line; a file without it was cut short."""

    runs: int
    trials: int


Entry = (
    HeaderEntry
    | WorkloadEntry
    | DeviceEntry
    | RunEntry
    | TrialEntry
    | FamilyEntry
    | ModelEntry
    | ModelTimeEntry
    | EndEntry
)


def run_ref(run: Run) -> str:
    """The identity of a run, from what never changes in it: equal in every store it was copied to."""
    facts = [
        run.host,
        run.user,
        run.command,
        run.name,
        run.started_at.isoformat(),
        dict(run.toolchain),
        [[task.workload.key, task.target] for task in run.tasks],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def device_ref(device: DeviceRecord) -> str:
    """The identity of a device as it was at a time."""
    return f"{device.name}#{fingerprint_digest(device.fingerprint)[:16]}"


def trial_entry(trial: Trial, task: int, device: str | None) -> TrialEntry:
    """The line for `trial`, of the run's task at position `task`, measured on `device`."""
    return TrialEntry(
        sequence=trial.sequence, task=task, purpose=str(trial.purpose), digest=trial.digest, trace=trial.trace,
        device=device, failure=None if trial.failure is None else str(trial.failure), started_at=trial.started_at,
        finished_at=trial.finished_at, **copied(TrialFacts, trial),
    )  # fmt: skip


def new_trial(entry: TrialEntry, task_id: int, device_id: int | None) -> NewTrial:
    """Return what the line says, for the store's task and device of these ids. Raises InvalidRecord."""
    try:
        purpose = TrialPurpose(entry.purpose)
        failure = None if entry.failure is None else FailureKind(entry.failure)
    except ValueError as error:
        raise InvalidRecord(str(error)) from None
    return NewTrial(
        task_id=task_id, digest=entry.digest, trace=entry.trace, device_id=device_id, purpose=purpose, failure=failure,
        started_at=entry.started_at, finished_at=entry.finished_at, **copied(TrialFacts, entry),
    )  # fmt: skip


def family_entry(family: StoredFamily, run: str | None) -> FamilyEntry:
    """The line for a family, which the run of this identity tuned."""
    return FamilyEntry(
        key=family.key, name=family.name, target=family.target, device_class=family.device_class, digest=family.digest,
        loss=family.loss, created_at=family.created_at, run=run, record=family.record,
    )  # fmt: skip


def new_family(entry: FamilyEntry, run_id: int | None) -> NewFamily:
    """Return what the line says. Raises InvalidRecord for a record that is none, or was changed."""
    try:
        found = FamilyRecord.from_json(entry.record)
    except FamilyError as error:
        raise InvalidRecord(f"the family {entry.name}: {error.message}") from None
    if (found.digest, found.target) != (entry.digest, entry.target):
        raise InvalidRecord(f"the digest of {entry.name} is not {entry.digest}: one of them was changed")
    return NewFamily(
        key=key_now(entry.record.get("what")) or entry.key, name=entry.name, target=entry.target,
        device_class=entry.device_class, run_id=run_id, digest=entry.digest, loss=entry.loss, record=entry.record,
    )  # fmt: skip


def model_entry(
    model: Model, version: ModelVersion, tasks: Sequence[ModelTask], graph: Sequence[GraphCall], runs: Sequence[str]
) -> ModelEntry:
    """The line for a version of a model, which the runs of these identities tuned."""
    return ModelEntry(
        owner=model.owner,
        name=model.name,
        readers=model.readers,
        digest=version.digest,
        file_digest=version.file_digest,
        form=version.form,
        sizes=version.sizes,
        file_bytes=version.file_bytes,
        created_by=version.created_by,
        graph=tuple(asdict(call) for call in graph),
        tasks=tuple(
            ModelTaskEntry(workload=task.workload_key, kind=task.kind, names=task.names, calls=task.calls)
            for task in tasks
        ),
        runs=tuple(runs),
    )


def new_versions(entry: ModelEntry, workloads: Mapping[str, WorkloadEntry]) -> tuple[NewModelVersion, ...]:
    """Return what the line says, for each kind of target that the version has kernels for.
    Raises InvalidRecord."""
    tasks: dict[str, list[NewModelTask]] = {}
    for task in entry.tasks:
        line = workloads.get(task.workload)
        if line is None:
            raise InvalidRecord(f"no workload {task.workload} comes before it")
        row = NewWorkload(**copied(WorkloadFacts, line))
        tasks.setdefault(task.kind, []).append(NewModelTask(workload=row, names=task.names, calls=task.calls))
    try:
        graph = tuple(GraphCall(**{**call, "inputs": tuple(call["inputs"])}) for call in entry.graph)
    except (TypeError, KeyError) as error:
        raise InvalidRecord(f"the graph of {entry.name}: {error}") from None
    return tuple(
        NewModelVersion(
            name=entry.name,
            owner=entry.owner,
            readers=entry.readers,
            digest=entry.digest,
            file_digest=entry.file_digest,
            form=entry.form,
            sizes=entry.sizes,
            file_bytes=entry.file_bytes,
            created_by=entry.created_by,
            graph=graph,
            kind=kind,
            tasks=tuple(of_kind),
        )
        for kind, of_kind in (tasks or {"llvm": []}).items()
    )


def model_time_entry(time: ModelTime, device: str, kernels: Sequence[KernelShare]) -> ModelTimeEntry:
    """The line for a measurement."""
    return ModelTimeEntry(
        device=device,
        target=time.target,
        measured_at=time.measured_at,
        kernels=tuple(asdict(kernel) for kernel in kernels),
        **copied(ModelTimeFacts, time),
    )


def new_model_time(entry: ModelTimeEntry, version_id: int, device_id: int) -> NewModelTime:
    """Return what the line says, for the store's version and device of these ids. Raises InvalidRecord."""
    try:
        kernels = tuple(KernelShare(**kernel) for kernel in entry.kernels)
    except TypeError as error:
        raise InvalidRecord(f"a kernel of a profile: {error}") from None
    return NewModelTime(
        version_id=version_id,
        device_id=device_id,
        target=entry.target,
        measured_at=entry.measured_at,
        kernels=kernels,
        **copied(ModelTimeFacts, entry),
    )
