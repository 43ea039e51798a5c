"""What a file of records holds: one entry a line, each complete enough to be put into another store.

Rows refer to each other by what stays the same between stores: a workload by its key, a run by its identity, a
device by its name and what is known of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from rpc_server.wire.trial_messages import FailureKind
from tuner.records.errors import InvalidRecord
from tuner.records.facts import copied, lines_with
from tuner.records.lookup.keys import fingerprint_digest
from tuner.records.model import DeviceRecord, NewTrial, Run, Trial, TrialFacts, TrialPurpose

FORMAT = "tunefarm.records"
VERSION = 1


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="entry"):
    """One line."""


class HeaderEntry(_Entry, frozen=True, kw_only=True, tag="header"):
    """The first line."""

    format: str = FORMAT
    version: int = VERSION
    written_by: str = ""


class WorkloadEntry(_Entry, frozen=True, kw_only=True, tag="workload"):
    key: str
    name: str
    spec: Mapping[str, Any] | None = None
    function: str = ""
    flops: float | None = None


class DeviceEntry(_Entry, frozen=True, kw_only=True, tag="device"):
    """`ref` is how the trials of this file name it."""

    ref: str
    name: str
    key: str
    device_class: str
    fingerprint: Mapping[str, Any] = {}
    features: tuple[str, ...] = ()


class TaskEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task of a run: the workload's key, the target's text and the budget in trials."""

    workload: str
    target: str
    budget: int


class RunEntry(_Entry, frozen=True, kw_only=True, tag="run"):
    """`ref` is the run's identity (`run_ref`), the same in every store the run is in."""

    ref: str
    name: str
    state: str
    message: str = ""
    options: Mapping[str, Any] = {}
    command: str = ""
    host: str = ""
    user: str = ""
    toolchain: Mapping[str, str]
    started_at: datetime
    finished_at: datetime | None = None
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


class EndEntry(_Entry, frozen=True, kw_only=True, tag="end"):
    """The last line; a file without it was cut short."""

    runs: int
    trials: int


Entry = HeaderEntry | WorkloadEntry | DeviceEntry | RunEntry | TrialEntry | EndEntry


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
        sequence=trial.sequence,
        task=task,
        purpose=str(trial.purpose),
        digest=trial.digest,
        trace=trial.trace,
        device=device,
        failure=None if trial.failure is None else str(trial.failure),
        started_at=trial.started_at,
        finished_at=trial.finished_at,
        **copied(TrialFacts, trial),
    )


def new_trial(entry: TrialEntry, task_id: int, device_id: int | None) -> NewTrial:
    """What the line says, for the store's task and device of these ids. Raises InvalidRecord."""
    try:
        purpose = TrialPurpose(entry.purpose)
        failure = None if entry.failure is None else FailureKind(entry.failure)
    except ValueError as error:
        raise InvalidRecord(str(error)) from None
    return NewTrial(
        task_id=task_id,
        digest=entry.digest,
        trace=entry.trace,
        device_id=device_id,
        purpose=purpose,
        failure=failure,
        started_at=entry.started_at,
        finished_at=entry.finished_at,
        **copied(TrialFacts, entry),
    )
