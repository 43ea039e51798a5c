"""A run's side of the record store: what goes in as it happens, and what a resumed run takes out."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from compiler.errors import ScheduleError
from compiler.schedule.trace import Trace
from tuner.engine_events import RecordTrial
from tuner.engine_state import Restored
from tuner.errors import TuningError
from tuner.fleet import DeviceInfo
from tuner.options import RunOptions
from tuner.records.model import (
    NewDevice,
    NewRun,
    NewRunTask,
    NewTrial,
    NewWorkload,
    Run,
    RunState,
    TrialPurpose,
)
from tuner.records.store import RecordStore
from tuner.search.base import Candidate
from tuner.space.sketch import Sketch
from tuner.task import TuningTask

_NOISY_LOAD = 1.5  # load average per core above which a measurement is flagged
_NOISY_SPREAD = 0.1  # spread of the samples, relative to their least, above which it is


def toolchain() -> dict[str, str]:
    """Versions of what turns a trace into machine code."""
    import llvmlite.binding as llvm

    try:
        ours = version("tunefarm")
    except PackageNotFoundError:
        ours = "0+unknown"
    return {"tunefarm": ours, "llvm": ".".join(map(str, llvm.llvm_version_info))}


@dataclass(frozen=True)
class _Device:
    id: int
    cores: int


class Ledger:
    """Records one run. Make it with `create` or `resume`; used from the engine's thread only."""

    def __init__(self, store: RecordStore, run: Run) -> None:
        self._store = store
        self._run = run
        self._devices: dict[int, _Device] = {}
        self._sketches: dict[int, tuple[Sketch, ...]] = {}

    @staticmethod
    def create(store: RecordStore, tasks: Sequence[TuningTask], options: RunOptions, command: str = "") -> Ledger:
        """A new run. `command` is what a person types to repeat it."""
        rows = []
        for task in tasks:
            workload = store.upsert_workload(
                NewWorkload(
                    key=task.key,
                    name=task.name,
                    spec=task.spec.to_json() if task.spec else None,
                    function=task.func.script(),
                    flops=task.flops,
                )
            )
            target = store.upsert_target(str(task.target))
            rows.append(NewRunTask(workload_id=workload.id, target_id=target.id, budget=options.trials))
        run = store.start_run(
            NewRun(
                tasks=tuple(rows),
                toolchain=toolchain(),
                name=", ".join(t.name for t in tasks),
                options=options.to_json(),
                command=command,
                host=socket.gethostname(),
                user=_user(),
            )
        )
        return Ledger(store, run)

    @staticmethod
    def resume(store: RecordStore, run_id: int, tasks: Sequence[TuningTask]) -> Ledger:
        """Take up an earlier run of the same tasks. Raises TuningError when they are not the same."""
        run = store.run(run_id)
        if [t.workload.key for t in run.tasks] != [t.key for t in tasks]:
            raise TuningError(
                f"run {run_id} tuned other functions: the workloads' definitions have changed since",
                hint="start a new run; earlier records stay in the store",
            )
        return Ledger(store, run)

    @property
    def run_id(self) -> int:
        return self._run.id

    # -- the run's state

    def begin(self) -> None:
        self._store.set_run_state(self.run_id, RunState.RUNNING, "")

    def finish(self, problems: str) -> None:
        """The run is over; `problems` names tasks that gave up."""
        state = RunState.FAILED if problems else RunState.FINISHED
        self._store.set_run_state(self.run_id, state, problems)

    def interrupt(self, reason: str) -> None:
        self._store.set_run_state(self.run_id, RunState.INTERRUPTED, reason)

    # -- what happens

    def device(self, slot: int, device: DeviceInfo) -> None:
        """The device that `slot` holds from now on."""
        fingerprint = device.fingerprint
        row = self._store.upsert_device(
            NewDevice(
                name=device.name,
                key=device.key,
                device_class=fingerprint.device_class,
                fingerprint=fingerprint.to_builtins(),
                features=tuple(fingerprint.features),
            )
        )
        self._devices[slot] = _Device(row.id, fingerprint.cores)

    def record(self, event: RecordTrial) -> None:
        """Store a trial; durable when this returns."""
        device = self._devices.get(event.slot) if event.slot is not None else None
        candidate, measured = event.job.candidate, event.measured
        samples = measured.costs if measured is not None and event.failure is None else ()
        environment = dict(measured.environment) if measured is not None else {}
        self._store.add_trial(
            NewTrial(
                task_id=self._run.tasks[event.job.task].id,
                digest=candidate.digest if candidate else None,
                trace=candidate.trace_json if candidate else None,
                device_id=device.id if device else None,
                purpose=event.job.purpose,
                samples=samples,
                verified=bool(samples),
                failure=event.failure,
                failure_text=event.text if event.failure else "",
                noise=_noise(samples, environment, device.cores if device else 1),
                build_s=event.build.seconds,
                measure_s=measured.elapsed_s if measured is not None else None,
                environment=environment,
            ),
        )

    # -- taking up an earlier run

    def sketches(self, task: int, sketches: tuple[Sketch, ...]) -> tuple[Sketch, ...]:
        """Remember the task's space, to recognise recorded traces in."""
        self._sketches[task] = sketches
        return sketches

    def restored(self, task: int) -> tuple[float | None, list[Restored]]:
        """The baseline's cost and every search trial recorded for the task."""
        row = self._run.tasks[task]
        found: list[Restored] = []
        for trial in self._store.all_trials(self.run_id):
            if trial.task_id == row.id and trial.purpose is TrialPurpose.SEARCH:
                candidate = self._recognise(task, trial.digest, trial.trace)
                found.append(Restored(candidate, trial.cost, trial.failure))
        return row.baseline_cost, found

    def _recognise(self, task: int, digest: str | None, trace: str | None) -> Candidate | None:
        """The candidate whose trace was recorded, when today's space still has it."""
        if trace is None:
            return None
        try:
            decisions = tuple(d for d in Trace.from_json(trace).decisions if isinstance(d, int))
        except ScheduleError:
            return None
        for sketch in self._sketches.get(task, ()):
            if len(decisions) == len(sketch.decisions):
                candidate = Candidate(sketch, decisions)
                if candidate.digest == digest:
                    return candidate
        return None


def _noise(samples: Sequence[float], environment: dict[str, float], cores: int) -> tuple[str, ...]:
    """What was odd about a measurement."""
    flags = []
    if environment.get("load_1m", 0.0) > _NOISY_LOAD * cores:
        flags.append("load")
    if len(samples) > 1 and max(samples) - min(samples) > _NOISY_SPREAD * min(samples):
        flags.append("spread")
    return tuple(flags)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for this uid
        return ""
