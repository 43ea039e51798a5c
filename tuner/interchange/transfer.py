"""Records out of a store and into another one, as a stream of entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from tuner.interchange.entries import (
    DeviceEntry,
    EndEntry,
    Entry,
    FamilyEntry,
    HeaderEntry,
    ModelEntry,
    ModelTimeEntry,
    RunEntry,
    TaskEntry,
    TrialEntry,
    WorkloadEntry,
    device_ref,
    family_entry,
    model_entry,
    model_time_entry,
    new_family,
    new_model_time,
    new_trial,
    new_versions,
    run_ref,
    trial_entry,
)
from tuner.records.facts import copied
from tuner.records.model import (
    IMPORTED,
    DeviceFacts,
    DeviceRecord,
    NewDevice,
    NewRun,
    NewRunTask,
    NewTrial,
    NewWorkload,
    Run,
    RunFacts,
    RunState,
    RunTaskFacts,
    RunUse,
    Trial,
    Workload,
    WorkloadFacts,
)
from tuner.records.model_store.facts import Model, ModelTime, ModelVersion
from tuner.records.paging import all_pages
from tuner.records.parts.families import StoredFamily
from tuner.records.store import RecordStore

BATCH = 500
"""Trials stored in one transaction."""

_PAGE = 200  # runs read at once

Progress = Callable[[int], None]
"""Told how many trials were done, now and then."""


@dataclass(frozen=True)
class Selection:
    """Which runs: of these numbers, and with a workload of this name or key. Empty: all."""

    runs: frozenset[int] = frozenset()
    workload: str = ""

    def takes(self, run: Run) -> bool:
        names = {name for task in run.tasks for name in (task.workload.name, task.workload.key)}
        return (not self.runs or run.id in self.runs) and (not self.workload or self.workload in names)


def selected_runs(store: RecordStore, selection: Selection) -> Iterator[Run]:
    """The runs, oldest first. Raises RecordNotFound for a number there is no run of."""
    if selection.runs:
        yield from (run for number in sorted(selection.runs) if selection.takes(run := store.runs.get(number)))
        return
    yield from (run for run in reversed(list(_all_runs(store))) if selection.takes(run))


def _all_runs(store: RecordStore) -> Iterator[Run]:
    return all_pages(lambda before: store.runs.newest(_PAGE, before))


# ---------------------------------------------------------------------------------------- out


def read(store: RecordStore, selection: Selection = Selection(), written_by: str = "") -> Iterator[Entry]:
    """The selected runs with all they refer to. A run under way is given as far as it is."""
    yield HeaderEntry(written_by=written_by)
    workloads: set[str] = set()
    devices: dict[int, str] = {}
    refs: dict[int, str] = {}
    runs = trials = 0
    for run in selected_runs(store, selection):
        for task in run.tasks:
            if task.workload.key not in workloads:
                workloads.add(task.workload.key)
                yield _workload_entry(task.workload)
        yield _run_entry(run)
        refs[run.id] = run_ref(run)
        runs += 1
        position = {(task.workload.key, task.target): task.position for task in run.tasks}
        for trial in store.trials.all(run.id):
            if trial.device_id is not None and trial.device_id not in devices:
                device = store.devices.get(trial.device_id)
                devices[trial.device_id] = device_ref(device)
                yield _device_entry(device)
            task_at = position[trial.workload_key, trial.target]
            yield trial_entry(trial, task_at, None if trial.device_id is None else devices[trial.device_id])
            trials += 1
    for family in reversed(list(_all_families(store))):
        ref = None if family.run_id is None else refs.get(family.run_id)
        if ref is not None or selection == Selection():
            yield family_entry(family, ref)
    if selection == Selection():
        yield from _models(store, workloads, set(devices.values()))
    yield EndEntry(runs=runs, trials=trials)


def _models(store: RecordStore, workloads: set[str], devices: set[str]) -> Iterator[Entry]:
    """All models with their versions, kernels, end-to-end times and profiles; files stay where they are."""
    known = {(device.name, device.device_class): device for device in _all_devices(store)}
    for model in reversed(list(_all_models(store))):
        for version in reversed(list(_all_versions(store, model.id))):
            tasks = store.models.tasks(version.id)
            for key in dict.fromkeys(task.workload_key for task in tasks):
                if key not in workloads and (workload := store.workloads.find(key)) is not None:
                    workloads.add(key)
                    yield _workload_entry(workload)
            runs = [run_ref(store.runs.get(number)) for number in reversed(store.models.runs(version.id, 1000))]
            yield model_entry(model, version, tasks, store.models.graph(version.id), runs)
            for time in reversed(list(_all_times(store, model.id, version.id))):
                device = known[time.device, time.device_class]
                if (ref := device_ref(device)) not in devices:
                    devices.add(ref)
                    yield _device_entry(device)
                yield model_time_entry(time, ref, store.models.profile(time.id))


def _all_families(store: RecordStore, key: str | None = None) -> Iterator[StoredFamily]:
    return all_pages(lambda before: store.families.newest(_PAGE, before, key))


def _all_models(store: RecordStore) -> Iterator[Model]:
    return all_pages(lambda before: store.models.page(_PAGE, before))


def _all_versions(store: RecordStore, model_id: int) -> Iterator[ModelVersion]:
    return all_pages(lambda before: store.models.versions(model_id, _PAGE, before))


def _all_times(store: RecordStore, model_id: int, version_id: int) -> Iterator[ModelTime]:
    return all_pages(lambda before: store.models.times(model_id, None, version_id, 1000, before))


def _workload_entry(workload: Workload) -> WorkloadEntry:
    return WorkloadEntry(**copied(WorkloadFacts, workload))


def _device_entry(device: DeviceRecord) -> DeviceEntry:
    return DeviceEntry(
        ref=device_ref(device),
        **copied(DeviceFacts, device),
        device_class=device.device_class,
        features=device.features,
    )


def _run_entry(run: Run) -> RunEntry:
    return RunEntry(
        ref=run_ref(run), **copied(RunFacts, run) | {"options": run.options.get(IMPORTED, run.options)},
        state=str(run.state), message=run.message, started_at=run.started_at, finished_at=run.finished_at,
        held_s=run.use.held_s, busy_s=run.use.busy_s,
        tasks=tuple(TaskEntry(workload=t.workload.key, target=t.target, **copied(RunTaskFacts, t)) for t in run.tasks),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------- in


@dataclass
class MergeOutcome:
    """The outcome of a merge: `runs` and `trials` that were new, and those `known` already.

    `models` counts new versions of models, `model_times` new measurements of them, and `families` functions tuned at
    many sizes. `diverged` are the store's numbers of runs that went on in both places; the store's are kept, the
    others left out.
    """

    runs: int = 0
    known_runs: int = 0
    trials: int = 0
    known_trials: int = 0
    diverged: list[int] = field(default_factory=list)
    left_out: int = 0
    models: int = 0
    model_times: int = 0
    families: int = 0


def write(
    store: RecordStore, entries: Iterable[Entry], progress: Progress | None = None, *, own: bool = False
) -> MergeOutcome:
    """Put `entries`, as `read` gives them or `jsonl.load` checked them, into `store`.

    Unless they are the user's `own`, no run of theirs can be resumed. Its options may name files to run and builders
    to dial, and whoever made them may not be trusted with that.

    Runs that the store has are continued, not repeated. A second import adds nothing, and one after an interruption
    adds the rest. Best configs follow as if the trials had been measured here.
    """
    writer = _Writer(store, progress or (lambda done: None), own)
    for entry in entries:
        writer.take(entry)
    return writer.merged


@dataclass
class _Writer:
    store: RecordStore
    progress: Progress
    own: bool = False
    merged: MergeOutcome = field(default_factory=MergeOutcome)
    devices: dict[str, int] = field(default_factory=dict)
    workloads: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(init=False)
    entry: RunEntry | None = None
    run: Run | None = None
    last: Trial | None = None
    diverged: bool = False
    waiting: list[NewTrial] = field(default_factory=list)
    lines: dict[str, WorkloadEntry] = field(default_factory=dict)
    version: ModelVersion | None = None
    times: set[tuple[str, datetime]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.known = {run_ref(run): run.id for run in _all_runs(self.store)}
        self.devices = {device_ref(device): device.id for device in _all_devices(self.store)}

    def take(self, entry: Entry) -> None:
        match entry:
            case HeaderEntry():
                pass
            case WorkloadEntry():
                new = NewWorkload(**copied(WorkloadFacts, entry))
                self.workloads[entry.key] = self.store.workloads.upsert(new).id
                self.lines[entry.key] = entry
            case DeviceEntry():
                self._device(entry)
            case RunEntry():
                self._end_run()
                self._begin_run(entry)
            case TrialEntry():
                self._trial(entry)
            case FamilyEntry():
                self._end_run()
                self._family(entry)
            case ModelEntry():
                self._end_run()
                self._model(entry)
            case ModelTimeEntry():
                self._model_time(entry)
            case EndEntry():
                self._end_run()
            case _:
                assert_never(entry)

    def _device(self, entry: DeviceEntry) -> None:
        if entry.ref not in self.devices:
            new = NewDevice(**copied(DeviceFacts, entry), device_class=entry.device_class, features=entry.features)
            self.devices[entry.ref] = self.store.devices.upsert(new).id

    def _family(self, entry: FamilyEntry) -> None:
        same = (entry.digest, entry.target, entry.device_class, entry.created_at)
        new = new_family(entry, None if entry.run is None else self.known.get(entry.run))
        known = (family for key in {new.key, entry.key} for family in _all_families(self.store, key))
        if same not in ((f.digest, f.target, f.device_class, f.created_at) for f in known):
            self.store.families.add(new, entry.created_at)
            self.merged.families += 1

    def _model(self, entry: ModelEntry) -> None:
        for new in new_versions(entry, self.lines):
            self.version = self.store.models.register(new)
        assert self.version is not None
        for ref in entry.runs:
            if ref in self.known:
                self.store.models.link_run(self.version.id, self.known[ref])
        known = _all_times(self.store, self.version.model_id, self.version.id)
        self.times = {(time.device, time.measured_at) for time in known}
        self.merged.models += 1

    def _model_time(self, entry: ModelTimeEntry) -> None:
        assert self.version is not None
        device = entry.device.rpartition("#")[0]
        if (device, entry.measured_at) in self.times:
            return
        self.store.models.add_time(new_model_time(entry, self.version.id, self.devices[entry.device]))
        self.merged.model_times += 1

    def _begin_run(self, entry: RunEntry) -> None:
        self.entry, self.last, self.diverged = entry, None, False
        number = self.known.get(entry.ref)
        if number is None:
            # interrupted until it is all here: nobody works on it
            self.run = self.store.runs.start(self._new_run(entry), RunState.INTERRUPTED)
            self.known[entry.ref] = self.run.id
            self.merged.runs += 1
        else:
            self.run = self.store.runs.get(number)
            newest = self.store.trials.page(number, before=_ANY_SEQUENCE, limit=1, with_trace=False)
            self.last = newest[0] if newest else None
            self.merged.known_runs += 1

    def _new_run(self, entry: RunEntry) -> NewRun:
        tasks = tuple(
            NewRunTask(
                workload_id=self.workloads[task.workload],
                target_id=self.store.targets.upsert(task.target).id,
                **copied(RunTaskFacts, task),
            )
            for task in entry.tasks
        )
        return NewRun(
            **copied(RunFacts, entry) | ({} if self.own else {"options": {IMPORTED: entry.options}}),
            tasks=tasks,
            started_at=entry.started_at,
        )

    def _trial(self, entry: TrialEntry) -> None:
        assert self.run is not None
        if self.last is not None and entry.sequence == self.last.sequence:
            self.diverged = not _is_same(entry, self.last)
        if self.diverged:
            self.merged.left_out += 1
        elif self.last is not None and entry.sequence <= self.last.sequence:
            self.merged.known_trials += 1
        else:
            device = None if entry.device is None else self.devices[entry.device]
            self.waiting.append(new_trial(entry, self.run.tasks[entry.task].id, device))
            if len(self.waiting) >= BATCH:
                self._flush()

    def _flush(self) -> None:
        if not self.waiting:
            return
        self.store.trials.add_all(self.waiting)
        self.merged.trials += len(self.waiting)
        self.waiting = []
        self.progress(self.merged.trials)

    def _end_run(self) -> None:
        if self.run is None or self.entry is None:
            return
        before = self.run.trials
        self._flush()
        grew = self.last is None or self.store.runs.get(self.run.id).trials > before
        if self.diverged:
            self.merged.diverged.append(self.run.id)
        elif grew:
            state = RunState(self.entry.state)
            self.store.runs.set_state(
                self.run.id,
                state if state.ended else RunState.INTERRUPTED,
                self.entry.message,
                at=self.entry.finished_at,
                use=RunUse(held_s=self.entry.held_s, busy_s=self.entry.busy_s) if self.own else None,
            )
        self.entry = self.run = None


_ANY_SEQUENCE = 2**31 - 1  # the widest the column takes


def _is_same(entry: TrialEntry, trial: Trial) -> bool:
    return (entry.digest, entry.samples, entry.purpose) == (trial.digest, trial.samples, str(trial.purpose))


def _all_devices(store: RecordStore) -> Iterator[DeviceRecord]:
    return all_pages(lambda after: store.devices.page(after, 1000), 0)


def copy(
    source: RecordStore, target: RecordStore, selection: Selection = Selection(), progress: Progress | None = None
) -> MergeOutcome:
    """Put the selected runs of `source` into `target`."""
    return write(target, read(source, selection), progress, own=True)
