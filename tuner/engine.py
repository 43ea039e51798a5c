"""A tuning run: the engine's state machine joined to builders, device slots and the record store.

One thread owns the run: it takes events from an inbox (builds done, measurements done, devices that came or
went), feeds the state machine, and carries out its commands. Every trial is in the store before the search is
told of it, so a run that ends at any moment loses only what was in flight.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from rpc_server.measure import MeasureRequest
from tuner import fleet as fl
from tuner.budget import Limits
from tuner.builder import Builder, BuildRequest, BuildResult, pack_func
from tuner.engine_events import (
    Built,
    Claim,
    Claimed,
    Command,
    Event,
    Job,
    Measured,
    RecordTrial,
    Release,
    RunEnded,
    SlotDown,
    SlotUp,
    SubmitBuild,
    SubmitMeasure,
    TaskEnded,
)
from tuner.engine_state import EngineState
from tuner.errors import NoDevicesError
from tuner.ledger import Ledger
from tuner.options import RunOptions
from tuner.progress import Silent, Snapshot, TaskProgress, Watcher
from tuner.records.model import TrialPurpose
from tuner.search.registry import make_strategy
from tuner.space.generate import generate
from tuner.task_state import Plan
from tuner.task import TuningTask

_TICK_S = 0.25
_RECRUIT_S = 2.0
_MOST_SLOTS = 512


@dataclass(frozen=True)
class _BuildDone:
    job: Job
    result: BuildResult


@dataclass(frozen=True)
class _Recruit:
    """There are devices for this many slots."""

    count: int


@dataclass(frozen=True)
class _Stop:
    """The user wants out; what arrived before is still recorded."""


_News = _BuildDone | _Recruit | _Stop | fl.Opened | fl.Finished | fl.Lost


class TuningRun:
    """Tunes `tasks` on the devices of `fleet`, recording into `ledger`.

    Call `run` once. It returns when every task is done, and raises NoDevicesError when no device came within
    `options.device_wait_s`, KeyboardInterrupt after `stop`. In both cases what was measured is recorded and the run
    can be resumed.
    """

    def __init__(
        self,
        tasks: Sequence[TuningTask],
        fleet: fl.Fleet,
        builder: Builder,
        ledger: Ledger,
        options: RunOptions,
        watcher: Watcher | None = None,
    ) -> None:
        self._tasks = tuple(tasks)
        self._fleet = fleet
        self._builder = builder
        self._ledger = ledger
        self._options = options
        self._watcher = watcher or Silent()
        self._inbox: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._slots: dict[int, fl.Slot] = {}
        self._jobs: dict[int, Job] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._errors: dict[int, str] = {}
        self._functions = [pack_func(t.func) for t in self._tasks]
        self._stopping = threading.Event()
        self._state = self._make_state()
        self._began = 0.0
        self._deviceless_since = 0.0
        self._restored = 0
        self._last_loss = ""

    # -- the loop

    def run(self) -> Snapshot:
        self._began = self._deviceless_since = time.monotonic()
        self._restore()
        self._ledger.begin()
        threading.Thread(target=self._recruit, name="recruiter", daemon=True).start()
        try:
            self._carry_out(self._state.start())
            while not self._state.ended:
                self._step()
            self._ledger.finish(self._outcome())
        except KeyboardInterrupt:
            self._ledger.interrupt("stopped by the user")
            raise
        except TunefarmError as error:
            self._ledger.interrupt(error.message)
            raise
        finally:
            self._shut_down()
        return self.snapshot()

    def stop(self) -> None:
        """Make `run` end soon, between two events. Safe in signal handlers and other threads."""
        self._inbox.put(_Stop())

    def _step(self) -> None:
        try:
            news = self._inbox.get(timeout=_TICK_S)
        except queue.Empty:
            self._check_devices()
            return
        event = self._digest(news)
        if event is not None:
            self._carry_out(self._state.handle(event))
        self._check_devices()
        self._watcher.update(self.snapshot())

    def _digest(self, news: _News) -> Event | None:
        """What a piece of news means to the state machine."""
        match news:
            case _BuildDone(job, result):
                return Built(job, result)
            case fl.Opened(slot, device):
                self._ledger.device(slot, device)
                self._watcher.note(f"device {device.name} ready ({device.fingerprint.device_class})")
                return SlotUp(slot)
            case fl.Finished(slot, ticket, result):
                return Measured(self._jobs.pop(ticket), slot, result)
            case fl.Lost(slot, reason):
                self._last_loss = reason
                self._watcher.note(f"slot {slot} has no device: {reason}")
                return SlotDown(slot, reason)
            case _Stop():
                raise KeyboardInterrupt
            case _Recruit(count):
                for number in range(len(self._slots), min(count, _MOST_SLOTS)):
                    self._slots[number] = fl.Slot(number, self._fleet, self._inbox.put)
                    self._slots[number].start()
                return None

    def _carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case SubmitBuild(job):
                    self._build(job)
                case SubmitMeasure():
                    self._measure(command)
                case RecordTrial():
                    self._ledger.record(command)
                case TaskEnded(task, error):
                    if error is not None:
                        self._errors[task] = error
                        self._watcher.note(f"{self._tasks[task].name} gave up: {error}")
                case Claim(job):
                    self._carry_out(self._state.handle(Claimed(job)))
                case RunEnded() | Release():
                    pass

    # -- doing things

    def _build(self, job: Job) -> None:
        task = self._tasks[job.task]
        request = BuildRequest(
            func=self._functions[job.task],
            trace=job.candidate.trace_json if job.candidate is not None else None,
            target=str(task.target),
            name="main",
            timeout_s=self._options.build_timeout_s,
        )
        future = self._builder.submit(request)
        future.add_done_callback(lambda done: self._inbox.put(_BuildDone(job, done.result())))

    def _measure(self, command: SubmitMeasure) -> None:
        job, options = command.job, self._options
        candidate = Artifact.from_bytes(command.artifact)
        reference = Artifact.from_bytes(command.reference)
        baseline = job.purpose is TrialPurpose.BASELINE
        request = MeasureRequest(
            artifact=candidate.digest,
            seed=options.seed,
            options=options.evaluator(job.purpose),
            timeout_s=options.run_timeout_s * (6 if baseline else 1),
            reference=None if baseline else reference.digest,
            reference_timeout_s=6 * options.run_timeout_s,
            rtol=options.rtol,
            atol=options.atol,
        )
        self._jobs[job.id] = job
        artifacts = (candidate,) if baseline else (candidate, reference)
        self._slots[command.slot].give(fl.Work(job.id, request, artifacts))

    def _recruit(self) -> None:
        """Watch how many devices there are, so that new ones get a slot while the run goes on."""
        while not self._stopping.is_set():
            try:
                self._inbox.put(_Recruit(self._fleet.count()))
            except TunefarmError as error:
                self._inbox.put(fl.Lost(-1, error.message))
            self._stopping.wait(_RECRUIT_S)

    def _check_devices(self) -> None:
        now = time.monotonic()
        if self._state.slots_up:
            self._deviceless_since = now
        elif now - self._deviceless_since > self._options.device_wait_s:
            raise NoDevicesError(
                f"no device of {self._fleet.label()} was available for {self._options.device_wait_s:g} s"
                + (f"; the last reason: {self._last_loss}" if self._last_loss else ""),
                hint=f"start a device server, then go on with: tunefarm tune --resume {self._ledger.run_id}",
            )

    def _shut_down(self) -> None:
        self._stopping.set()
        for slot in self._slots.values():
            slot.stop()
        self._builder.close()
        deadline = time.monotonic() + 2.0
        for slot in self._slots.values():
            slot.join(max(0.0, deadline - time.monotonic()))
        self._fleet.close()

    # -- state

    def _make_state(self) -> EngineState:
        options = self._options
        limits = Limits(
            trials=options.trials,
            builders=options.builders,
            finalists=options.finalists,
            final_rounds=options.final_rounds,
            equal_failures=options.equal_failures,
        )
        strategies = [
            make_strategy(options.strategy, self._ledger.sketches(i, generate(t.func, t.target)), options.seed, ())
            for i, t in enumerate(self._tasks)
        ]
        return EngineState([Plan(s) for s in strategies], limits)

    def _restore(self) -> None:
        for index in range(len(self._tasks)):
            baseline, trials = self._ledger.restored(index)
            self._state.restore(index, baseline, trials)
            self._restored += len(trials)

    def _outcome(self) -> str:
        return "; ".join(f"{self._tasks[i].name}: {error}" for i, error in self._errors.items())

    def snapshot(self) -> Snapshot:
        elapsed = time.monotonic() - self._began
        tasks = tuple(self._task_progress(i) for i in range(len(self._tasks)))
        done = sum(t.done for t in tasks)
        left = sum(t.budget - t.done for t in tasks if not t.ended)
        rate = (done - self._restored) / elapsed if elapsed > 0 else 0.0
        eta = left / rate if rate > 0 and elapsed > 1 else None
        return Snapshot(self._ledger.run_id, elapsed, self._state.slots_up, tasks, rate, eta)

    def _task_progress(self, index: int) -> TaskProgress:
        task, state = self._tasks[index], self._state.tasks[index]
        return TaskProgress(
            name=task.name,
            done=state.done,
            budget=self._options.trials,
            flops=task.flops,
            baseline_cost=state.baseline_cost,
            best_cost=state.best_cost,
            failures=dict(state.failures),
            ended=state.ended,
            error=self._errors.get(index),
        )


