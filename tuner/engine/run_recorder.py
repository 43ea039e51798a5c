"""A run's side of the record store.

It writes events as they happen, and reads what a resumed run needs.
"""

from __future__ import annotations

import socket
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from compiler.runtime.measure.statistics import summarise
from rpc_server.machine.user_name import user_name
from tuner.devices.fleet import NamedDevice
from tuner.engine.events import Claimed, Job, Known, RecordTrial, Taken
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch
from tuner.engine.progress import TrialDone, drift
from tuner.engine.store_rows import device_row, workload_row
from tuner.engine.task_state import Restored
from tuner.errors import TuningError
from tuner.goals import Goal
from tuner.number_text import counted, hours
from tuner.process_identity import is_gone, process_name
from tuner.records.lookup.keys import toolchain_key
from tuner.records.model import NewRun, NewRunTask, NewTrial, Run, RunState, RunUse, Trial, TrialPurpose
from tuner.records.runs.claims import ClaimAnswer, ClaimState, WantedClaims
from tuner.records.store import RecordStore
from tuner.search.base import Candidate, Recorded
from tuner.task import TuningTask
from tuner.toolchain import toolchain

EXPECTED = "expected_s"
"""Under which a trial's environment has the time that the search's model expected of the candidate."""
_LEAST_HOURS = 1e-9  # of a limit: 0 would be none
_NOISY_LOAD = 1.5  # load average per core above which a measurement is flagged
_NOISY_SPREAD = 0.1  # spread of the samples, relative to their least, above which it is
_NOISY_STOLEN = 0.05  # share of a core that the hypervisor gave to others
_NOISY_CLOCK = 0.05  # relative change of the clock


@dataclass(frozen=True)
class _Device:
    id: int
    name: str
    device_class: str
    cores: int


def write_down(
    store: RecordStore, tasks: Sequence[TuningTask], options: RunOptions, command: str, *, user: str = "",
    state: RunState = RunState.RUNNING,
) -> Run:  # fmt: skip
    """Record a new run of these tasks, and what they are."""
    rows = []
    for task in tasks:
        workload = store.workloads.upsert(workload_row(task))
        target = store.targets.upsert(str(task.target))
        budget = options.trials or options.total_trials
        row = NewRunTask(workload_id=workload.id, target_id=target.id, budget=budget, baseline=task.baseline)
        rows.append(row)
    return store.runs.start(
        NewRun(
            tasks=tuple(rows),
            toolchain=toolchain(),
            name=", ".join(t.name for t in tasks),
            options=options.to_json(),
            command=command,
            host=socket.gethostname(),
            user=user or user_name(),
        ),
        state,
    )


class RunRecorder:
    """Records one run, which belongs to this process from `create` or `resume` to `finish` or `interrupt`.
    Used from the engine's thread only. Every method raises RunTakenOver when another process has the run by now."""

    def __init__(self, store: RecordStore, run: Run, queued_only: bool = False) -> None:
        self._store = store
        self._run = run
        self._owner = process_name()
        self._goal = Goal(run.options.get("objective", Goal.TIME))
        self._devices: dict[int, _Device] = {}
        self._any_device: _Device | None = None
        self._baselines = {i: task.baseline_cost for i, task in enumerate(run.tasks)}
        store.runs.take(run.id, self._owner, is_gone, queued_only)
        self.use_before = self.use = store.runs.get(run.id).use

    @staticmethod
    def create(store: RecordStore, tasks: Sequence[TuningTask], options: RunOptions, command: str = "") -> RunRecorder:
        """A new run. `command` is what a person types to repeat it."""
        return RunRecorder(store, write_down(store, tasks, options, command))

    @staticmethod
    def resume(store: RecordStore, run_id: int, tasks: Sequence[TuningTask], queued_only: bool = False) -> RunRecorder:
        """Take up an earlier run of the same tasks.
        Raises TuningError when they are not the same, RunBusy while another process works on it; with `queued_only`,
        RunStopped when it was stopped before it began."""
        run = store.runs.get(run_id)
        if [t.workload.key for t in run.tasks] != [t.key for t in tasks]:
            raise TuningError(
                f"run {run_id} tuned other functions: the workloads' definitions have changed since",
                hint="start a new run; earlier records stay in the store",
            )
        return RunRecorder(store, run, queued_only)

    @property
    def run_id(self) -> int:
        return self._run.id

    # -- the run's state

    def begin(self) -> None:
        self._store.runs.set_state(self.run_id, RunState.RUNNING, "")

    def renew(self) -> None:
        """Say that this process is still at it."""
        self._store.runs.renew(self.run_id, self._owner, self.use)

    def note_use(self, session: RunUse) -> None:
        """Return how devices were used in this session so far, to be stored with the next write."""
        self.use = self.use_before + session

    def within_quota(self, options: RunOptions) -> RunOptions:
        """Return the options limited to the device hours that the run's user has left, where a quota says so.

        A run counts what its earlier sessions used.
        """
        left = self._store.quotas.hours_left(self._run.user)
        if left is None:
            return options
        most = max(left, _LEAST_HOURS) + self.use_before.held_s / 3600
        return replace(options, device_hours=min(options.device_hours or most, most))

    def finish(self, problems: str) -> None:
        """The run is over; `problems` names tasks that gave up."""
        state = RunState.FAILED if problems else RunState.FINISHED
        self._store.runs.leave(self.run_id, self._owner, state, problems, self.use)

    def out_of_quota(self, problems: str) -> None:
        """The run's user may hold no more devices, so the run goes on another day.
        `problems` names tasks that gave up."""
        quota = self._store.quotas.of(self._run.user)
        of = ""
        if quota is not None and quota.device_hours:
            of = f" of {hours(quota.device_hours)} device hours within {counted(quota.days, 'day')}"
        message = "; ".join(filter(None, [f"the quota{of} is used up", problems]))
        self._store.runs.leave(self.run_id, self._owner, RunState.OUT_OF_QUOTA, message, self.use)

    def interrupt(self, reason: str) -> None:
        self._store.runs.leave(self.run_id, self._owner, RunState.INTERRUPTED, reason, self.use)

    # -- what happens

    def device(self, slot: int, device: NamedDevice) -> None:
        """The device that `slot` holds from now on."""
        fingerprint = device.fingerprint
        row = self._store.devices.upsert(device_row(device))
        self._any_device = _Device(row.id, device.name, fingerprint.device_class, fingerprint.cores)
        self._devices[slot] = self._any_device

    def release(self, job: Job) -> None:
        """A claimed candidate that will not be measured."""
        assert self._any_device is not None
        self._store.trials.release(self._run.tasks[job.task].id, self._any_device.id, [_digest(job)])

    def book(
        self, events: Sequence[RecordTrial], jobs: Sequence[Job]
    ) -> tuple[list[TrialDone], list[Claimed | Known | Taken]]:
        """Store trials and claim the candidates of `jobs`, in one durable transaction.
        They are to be measured on a device like those seen so far (at least one where there are jobs). It is durable
        when this returns."""
        trials = [self._trial(event) for event in events]
        by_task: dict[int, list[Job]] = defaultdict(list)
        for job in jobs:
            by_task[job.task].append(job)
        wanted = [self._wanted(task, of_task) for task, of_task in by_task.items()]
        _, found = self._store.trials.add_and_claim(trials, wanted, self._owner)
        answers = dict(zip(by_task, found))
        claimed = [self._event(job, answers[job.task][_digest(job)]) for job in jobs]
        return [self._done(event, trial) for event, trial in zip(events, trials)], claimed

    def _wanted(self, task: int, jobs: Sequence[Job]) -> WantedClaims:
        assert self._any_device is not None
        return WantedClaims(self._run.tasks[task].id, self._any_device.id, [_digest(job) for job in jobs])

    def _trial(self, event: RecordTrial) -> NewTrial:
        device = self._devices.get(event.slot) if event.slot is not None else None
        candidate, measured = event.job.candidate, event.measured
        samples = measured.costs if measured is not None and event.failure is None else ()
        environment = dict(measured.environment) if measured is not None else {}
        if isinstance(candidate, Candidate) and candidate.expected is not None:
            environment[EXPECTED] = candidate.expected
        return NewTrial(
            task_id=self._run.tasks[event.job.task].id, digest=candidate.digest if candidate else None,
            trace=candidate.trace_json if candidate else None, device_id=device.id if device else None,
            purpose=event.job.purpose, samples=samples, verified=bool(samples), failure=event.failure,
            failure_text=event.text if event.failure else "",
            noise=self._noise(event, samples, environment, device.cores if device else 1), build_s=event.build.seconds,
            measure_s=measured.elapsed_s if measured is not None else None, environment=environment,
        )  # fmt: skip

    def _noise(
        self, event: RecordTrial, samples: Sequence[float], environment: Mapping[str, float], cores: int
    ) -> tuple[str, ...]:
        """Return `noise_flags`, and whether the untuned function took another time than when the run began."""
        flags = noise_flags(samples, environment, cores)
        if event.job.purpose is not TrialPurpose.BASELINE or not samples:
            return flags
        cost = summarise(samples)[0]
        first = self._baselines[event.job.task]
        if first is None:
            self._baselines[event.job.task] = cost
        return (*flags, "drift") if first is not None and drift(first, cost) is not None else flags

    def _done(self, event: RecordTrial, trial: NewTrial) -> TrialDone:
        device = self._devices.get(event.slot) if event.slot is not None else None
        return TrialDone(
            task=event.job.task, purpose=trial.purpose, candidate=event.job.candidate, samples=trial.samples,
            cost=summarise(trial.samples)[0] if trial.samples else None, failure=trial.failure, text=trial.failure_text,
            build_s=event.build.seconds, measure_s=trial.measure_s or 0.0, device=device.name if device else "",
            noise=trial.noise, timestamp=time.time(),
        )  # fmt: skip

    def results(self) -> list[tuple[float | None, float | None]]:
        """Return each task's result and the cost it is compared with, in seconds a call.
        All tables and pages use this definition."""
        if self._goal is not Goal.TIME:
            return [(None, None)] * len(self._run.tasks)
        tasks = self._store.runs.get(self.run_id).tasks
        found = [self._store.runs.task_result(self.run_id, task.id) for task in tasks]
        return [
            (None if result is None else result.cost, task.baseline_cost)
            for result, task in zip(found, tasks, strict=True)
        ]

    # -- what is there already

    def incumbent(self, task: int) -> Recorded | None:
        """Return what the store serves for the task on the devices' class, made by this toolchain.
        The devices are those seen so far."""
        assert self._any_device is not None
        row = self._run.tasks[task]
        key = toolchain_key(self._run.toolchain)
        found = self._store.best.look_up(row.workload.key, row.target, self._any_device.device_class, key, self._goal)
        if found.config is None or found.match != "exact":
            return None
        return Recorded(found.config.digest, found.config.trace)

    def restored(self, searches: Sequence[TaskSearch]) -> list[tuple[float | None, list[Restored]]]:
        """For each task the baseline's cost and every search trial recorded."""
        place = {row.id: i for i, row in enumerate(self._run.tasks)}
        found: list[list[Restored]] = [[] for _ in self._run.tasks]
        baselines = [row.baseline_cost if self._goal is Goal.TIME else None for row in self._run.tasks]
        for trial in self._store.trials.all(self.run_id):
            if trial.purpose is TrialPurpose.SEARCH:
                task = place[trial.task_id]
                known = trial.digest is not None and trial.trace is not None
                candidate = searches[task].recognise(trial.digest or "", trial.trace or "") if known else None
                cost = self._cost(trial)
                if cost is not None or trial.failure is not None:
                    found[task].append(Restored(candidate, cost, trial.failure))
            elif trial.purpose is TrialPurpose.BASELINE and baselines[place[trial.task_id]] is None:
                baselines[place[trial.task_id]] = self._cost(trial)
        return list(zip(baselines, found, strict=True))

    def _cost(self, trial: Trial) -> float | None:
        """The cost of a recorded trial, as the run counts it."""
        costs = self._goal.costs(trial.samples, trial.environment) if trial.cost is not None else None
        return summarise(costs)[0] if costs else None

    def _event(self, job: Job, answer: ClaimAnswer) -> Claimed | Known | Taken:
        """Answer a claim.
        Other runs' results are times, so a run that minimises energy measures for itself."""
        match answer.state:
            case ClaimState.CLAIMED:
                return Claimed(job)
            case ClaimState.KNOWN if answer.cost is not None and self._goal is not Goal.TIME:
                return Claimed(job)
            case ClaimState.KNOWN:
                return Known(job, answer.cost, answer.failure)
            case ClaimState.TAKEN:
                return Taken(job)
            case _:
                assert_never(answer.state)


def _digest(job: Job) -> str:
    """Return the digest of a candidate to claim or give up: a baseline is neither."""
    assert job.candidate is not None
    return job.candidate.digest


def noise_flags(samples: Sequence[float], environment: Mapping[str, float], cores: int) -> tuple[str, ...]:
    """Return what was odd about a measurement, as flags.
    They are the machine's load, the scatter of the samples, a core taken by a hypervisor, a changed clock, and cores
    slowed down for heat."""
    flags = []
    if environment.get("load_1m", 0.0) > _NOISY_LOAD * cores:
        flags.append("load")
    if len(samples) > 1 and max(samples) - min(samples) > _NOISY_SPREAD * min(samples):
        flags.append("spread")
    if environment.get("stolen_s", 0.0) > _NOISY_STOLEN * environment.get("timing_s", float("inf")):
        flags.append("stolen")
    if abs(environment.get("clock_change", 0.0)) > _NOISY_CLOCK:
        flags.append("clock")
    if environment.get("throttled", 0.0) > 0:
        flags.append("heat")
    return tuple(flags)
