"""A tuning run: the engine's state machine joined to builders, device slots and the record store.

One thread owns the run. It takes events from an inbox (builds done, measurements done, devices that came or went),
feeds the state machine, and carries out its commands. Every trial is in the store before the thread waits for more.
So a run that ends at any moment loses only what was in flight.
"""

from __future__ import annotations

import queue
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import assert_never

from compiler.artifact import Artifact
from compiler.errors import TunefarmError
from rpc_server.wire.trial_messages import FailureKind, MeasureRequest
from tuner.build.choose import make_builder
from tuner.build.process_builder import BuildRequest, CandidateBuild, CandidateBuilder
from tuner.devices import fleet as fl
from tuner.engine import events as ev
from tuner.engine.events import SubmitMeasure
from tuner.engine.forecaster import Forecaster, WeightedKernel
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch
from tuner.engine.progress import Best, NoWatcher, Outcome, Snapshot, Watcher, bests, task_progress, time_left
from tuner.engine.promptness import prompt_threads
from tuner.engine.run_recorder import RunRecorder
from tuner.engine.scheduling import Chooser, Objective
from tuner.engine.state import EngineState
from tuner.engine.task_state import Plan
from tuner.engine.turns import cores_shared
from tuner.engine.usage import Activity, Usage
from tuner.errors import NoDevicesError
from tuner.records.errors import RunTakenOver
from tuner.records.model import RunUse, TrialPurpose
from tuner.records.store import RecordStore
from tuner.rounding import Rounding
from tuner.untuned import device_type

_TICK_S = 0.25
_SHOW_S = 0.1
_RENEW_S = 4.0
_RECRUIT_S = 2.0
_MOST_SLOTS = 512
_AT_ONCE = 256


@dataclass(frozen=True)
class _BuildDone:
    job: ev.Job
    result: CandidateBuild


@dataclass(frozen=True)
class _SlotsFound:
    """There are devices for this many slots."""

    count: int


@dataclass(frozen=True)
class _Stop:
    """The user asked the run to end; what arrived before is still recorded."""


_Bookkeeping = ev.RecordTrial | ev.Claim | ev.LeaveSlot | ev.TaskEnded | ev.RunEnded
_News = _BuildDone | _SlotsFound | _Stop | fl.Opened | fl.Finished | fl.Lost


def tune(
    searches: Sequence[TaskSearch], *, fleet: fl.Fleet, builder: CandidateBuilder | None = None,
    options: RunOptions | None = None, store: RecordStore | None = None, watcher: Watcher | None = None,
    objective: Objective | None = None, chooser: Chooser | None = None, command: str = "",
) -> Outcome:  # fmt: skip
    """Run a search for each task on the devices of `fleet`, and return when all are done.

    The fleet stays open. Without `builder`, the one that `options` names is used and closed; without `store`, a
    temporary one. The gradient scheduler minimises `objective` (default: the sum of weight times cost). `chooser`
    replaces the scheduler and says which task is next. Raises what `EngineRun.run` does.
    """
    settings = options or RunOptions()
    with _opened(store) as records:
        made = builder or make_builder(settings.builders)
        try:
            recorder = RunRecorder.create(records, [s.task for s in searches], settings, command)
            run = EngineRun(searches, fleet, made, recorder, settings, watcher, objective, chooser)
            return Outcome(run.run(), run.best())
        finally:
            if builder is None:
                made.close()


@contextmanager
def _opened(store: RecordStore | None) -> Iterator[RecordStore]:
    if store is not None:
        yield store
        return
    with (
        tempfile.TemporaryDirectory(prefix="tunefarm-") as folder,
        RecordStore.open(Path(folder, "records.db"), create=True) as made,
    ):
        yield made


class EngineRun:
    """Runs `searches` on the devices of `fleet`, recording into `recorder`.

    Closes neither fleet nor builder. Call `run` once. It returns when every task is done, and raises NoDevicesError
    when no device came within `options.device_wait_s`, KeyboardInterrupt after `stop`. In both cases what was measured
    is recorded and the run can be resumed. RunTakenOver: this process was not heard of for so long that another one
    resumed the run.
    """

    def __init__(
        self, searches: Sequence[TaskSearch], fleet: fl.Fleet, builder: CandidateBuilder, recorder: RunRecorder,
        options: RunOptions, watcher: Watcher | None = None, objective: Objective | None = None,
        chooser: Chooser | None = None,
    ) -> None:  # fmt: skip
        self._searches = tuple(searches)
        self._fleet = fleet
        self._builder = builder
        self._recorder = recorder
        self._asked, self._options = options, recorder.within_quota(options)
        self._watcher = watcher or NoWatcher()
        self._inbox: queue.SimpleQueue[tuple[float, _News]] = queue.SimpleQueue()  # with the time it came
        self._slots: dict[int, fl.Slot] = {}
        self._device_numbers: dict[int, int] = {}  # by slot
        self._jobs: dict[int, ev.Job] = {}
        self._errors: dict[int, str] = {}
        self._stopping = threading.Event()
        self._wants_out = False
        plans = [Plan(s.strategy, s.weight, s.task.flops, s.group, s.task.threads, s.draft) for s in self._searches]
        self._state = EngineState(plans, self._options.limits(builder.workers), objective, chooser)
        self._usage = Usage()
        self._forecaster = Forecaster()
        self._activity = Activity()
        self._showed = 0.0
        self._began = self._renewed = self._ticked = time.monotonic()
        self._restored = 0
        self._device_wait = fl.DeviceWait(options.device_wait_s)
        self._last_loss = ""
        self._in_vain: set[int] = set()
        self._knows_incumbents = False

    # -- the loop

    def run(self) -> Snapshot:
        with prompt_threads():
            return self._run()

    def _run(self) -> Snapshot:
        self._began = self._renewed = self._ticked = time.monotonic()
        try:
            threading.Thread(target=self._recruit, name="recruiter", daemon=True).start()
            self._restore()
            self._carry_out(self._state.hear(ev.EngineTick(0.0, self._recorder.use.held_s)))  # by earlier sessions
            self._carry_out(self._state.start())  # the first build goes on while the store is written to
            self._recorder.begin()
            while not self._state.ended:
                self._step()
            results = self._recorder.results()
            self._note_use(time.monotonic())
            self._end("; ".join(f"{self._name(i)}: {error}" for i, error in self._errors.items()))
        except KeyboardInterrupt:
            self._note_use(time.monotonic())
            self._recorder.interrupt("stopped by the user")
            raise
        except RunTakenOver:
            raise
        except TunefarmError as error:
            self._note_use(time.monotonic())
            self._recorder.interrupt(error.message)
            raise
        finally:
            snapshot = self.snapshot()
            self._shut_down()
        snapshot = snapshot.with_results(results)
        self._watcher.update(snapshot)
        return snapshot

    def _end(self, problems: str) -> None:
        """Record that the run is over, and whether its user's quota is why."""
        limit_s = 3600 * self._options.device_hours
        if self._options != self._asked and self._recorder.use.held_s >= limit_s:
            asked = self._asked.limits(self._builder.workers)
            if self._state.would_go_on(asked, besides=self._errors.keys()):
                self._recorder.out_of_quota(problems)
                return
        self._recorder.finish(problems)

    def stop(self) -> None:
        """Make `run` end soon, between two events. Safe in signal handlers and other threads."""
        self._wants_out = True
        self._hear(_Stop())

    def _hear(self, news: _News) -> None:
        self._inbox.put((time.monotonic(), news))

    def best(self) -> tuple[Best | None, ...]:
        """The fastest of each task so far."""
        return bests(self._state.tasks)

    def _step(self) -> None:
        """Take what has arrived, a little of it at least, and do what it leads to."""
        arrived = self._arrived()
        commands: list[ev.Command] = []
        for when, news in arrived:
            if isinstance(news, fl.Opened | _Stop):  # what was measured on the slot's last device is recorded as that
                self._carry_out(commands)
                commands = []
            event = self._digest(when, news)
            commands += [] if event is None else self._state.hear(event)
        self._carry_out(commands)
        if not self._knows_incumbents and self._device_numbers:
            self._learn_incumbents()
        now = time.monotonic()
        if now - self._ticked >= _TICK_S:
            self._ticked = now
            self._note_use(now)
            self._carry_out(self._state.hear(ev.EngineTick(now - self._began, self._recorder.use.held_s)))
            self._check_devices(now)
        if now - self._showed >= _SHOW_S:
            self._showed = now
            self._watcher.update(self.snapshot())

    def _arrived(self) -> list[tuple[float, _News]]:
        """All news there is; waits for some, but not for long."""
        found: list[tuple[float, _News]] = []
        try:
            found.append(self._inbox.get(timeout=_TICK_S))
            while len(found) < _AT_ONCE:
                found.append(self._inbox.get_nowait())
        except queue.Empty:
            pass
        return found

    def _digest(self, when: float, news: _News) -> ev.Event | None:
        """Return what a piece of news means to the state machine."""
        match news:
            case _BuildDone(job, result):
                self._activity.ended(when, result.seconds)
                return ev.Built(job, result)
            case fl.Opened(slot, device, number):
                self._device_numbers[slot] = number
                self._in_vain.discard(slot)
                self._recorder.device(slot, device)
                self._usage.opened(slot, device.name, time.monotonic())
                self._watcher.note(f"device {device.name} ready ({device.fingerprint.device_class})")
                return ev.SlotUp(slot, cores_shared(device.fingerprint, self._builder.cores))
            case fl.Finished(slot, ticket, result):
                self._usage.measured(slot, result.elapsed_s)
                self._activity.ended(when, result.elapsed_s)
                if result.failure is FailureKind.DEVICE_LOST:
                    self._usage.closed(slot, time.monotonic())
                return ev.JobMeasured(self._jobs.pop(ticket), slot, result)
            case fl.Lost(slot, reason, gave_way, in_vain):
                self._last_loss = reason
                if in_vain:
                    self._in_vain.add(slot)
                self._usage.closed(slot, time.monotonic())
                if not gave_way:
                    self._watcher.note(f"slot {slot} has no device: {reason}")
                return ev.SlotDown(slot, reason)
            case _Stop():
                raise KeyboardInterrupt
            case _SlotsFound(count):
                for number in range(len(self._slots), min(count, _MOST_SLOTS)):
                    self._slots[number] = fl.Slot(number, self._fleet, self._hear)
                    self._slots[number].start()
                return None

    def _carry_out(self, commands: Sequence[ev.Command]) -> None:
        """Carry out commands.
        Those that keep devices and builders busy come first. Then the search is asked for more, which may take time.
        Then trials and claims go to the store in one transaction, and its answers lead to more."""
        left = self._hand_out(commands) + self._hand_out(self._state.go_on())
        while left:
            trials: list[ev.RecordTrial] = []
            claims: list[ev.Job] = []
            for command in left:
                match command:
                    case ev.RecordTrial():
                        trials.append(command)
                    case ev.Claim(job):
                        claims.append(job)
                    case ev.LeaveSlot(job):
                        self._recorder.release(job)
                    case ev.TaskEnded(task, error):
                        self._note_end(task, error)
                    case ev.RunEnded():
                        pass
                    case _:
                        assert_never(command)
            finished, answers = self._recorder.book(trials, claims)
            for done in finished:
                self._watcher.trial(done)
            told = [command for answer in answers for command in self._state.hear(answer)]
            left = self._hand_out(told) + self._hand_out(self._state.go_on())
            self._renew_if_due()
            if claims and self._wants_out:  # results of other runs can lead to new claims for long
                raise KeyboardInterrupt

    def _hand_out(self, commands: Sequence[ev.Command]) -> list[_Bookkeeping]:
        """Give devices and builders what is for them; returns the rest."""
        rest: list[_Bookkeeping] = []
        for command in commands:
            match command:
                case ev.SubmitMeasure():
                    self._measure(command)
                case ev.SubmitBuild(job):
                    self._build(job)
                case _:
                    rest.append(command)
        return rest

    def _note_end(self, task: int, error: str | None) -> None:
        if error is not None:
            self._errors[task] = error
            self._watcher.note(f"{self._name(task)} gave up: {error}")

    # -- doing things

    def _build(self, job: ev.Job) -> None:
        try:
            source = self._searches[job.task].source(job.candidate)
        except TunefarmError as error:
            self._no_source(job, str(error))
            return
        except Exception:  # a user's own function: it costs one trial and its trace is kept
            self._no_source(job, traceback.format_exc(limit=-8))
            return
        target = str(self._searches[job.task].task.target)
        request = BuildRequest(source, target, timeout_s=self._options.build_timeout_s)
        self._builder.submit(request).add_done_callback(lambda done: self._hear(_BuildDone(job, done.result())))

    def _no_source(self, job: ev.Job, text: str) -> None:
        self._hear(_BuildDone(job, CandidateBuild(None, FailureKind.INSTANTIATE, text, 0.0)))

    def _measure(self, command: ev.SubmitMeasure) -> None:
        task = self._searches[command.job.task].task
        request, artifacts = measurement(command, task.rounding, self._options, task.flops, task.weights)
        self._jobs[command.job.id] = command.job
        work = fl.DeviceWork(command.job.id, request, artifacts, self._device_numbers[command.slot])
        self._slots[command.slot].give(work)

    def _learn_incumbents(self) -> None:
        """Set what the store serves, once the device class is known."""
        self._knows_incumbents = True
        for task, search in enumerate(self._searches):
            recorded = self._recorder.incumbent(task)
            if recorded is not None:
                candidate = search.recognise(recorded.digest, recorded.trace_json) or recorded
                self._carry_out(self._state.hear(ev.Incumbent(task, candidate)))

    def _recruit(self) -> None:
        """Watch how many devices there are, so that new ones get a slot while the run goes on."""
        while not self._stopping.is_set():
            try:
                self._hear(_SlotsFound(self._fleet.count()))
            except TunefarmError as error:
                self._hear(fl.Lost(-1, error.message))
            self._stopping.wait(_RECRUIT_S)

    def _renew_if_due(self) -> None:
        now = time.monotonic()
        if now - self._renewed >= _RENEW_S:
            self._renewed = now
            self._recorder.renew()

    def _note_use(self, now: float) -> None:
        self._recorder.note_use(RunUse(held_s=self._usage.held_s(now), busy_s=self._usage.busy_s))

    def _check_devices(self, now: float) -> None:
        self._renew_if_due()
        if self._in_vain and self._in_vain >= self._slots.keys():
            raise NoDevicesError(
                f"{self._fleet.label()} gives no sessions without a lease: {self._last_loss}",
                hint="ask its tracker for it, with --tracker HOST:PORT --key KEY: "
                f"tunefarm tune --resume {self._recorder.run_id} --tracker HOST:PORT --key KEY",
            )
        coming = isinstance(self._fleet, fl.Queueing) and self._fleet.has_turn_coming()
        if self._device_wait.is_over(now, found=self._state.slots_up > 0 or coming):
            raise NoDevicesError(
                f"no device of {self._fleet.label()} was available for {self._options.device_wait_s:g} s"
                + (f"; the last reason: {self._last_loss}" if self._last_loss else ""),
                hint=f"start a device server, then go on with: tunefarm tune --resume {self._recorder.run_id}",
            )

    def _shut_down(self) -> None:
        self._stopping.set()
        for slot in self._slots.values():
            slot.stop()
        deadline = time.monotonic() + 2.0
        for slot in self._slots.values():
            slot.join(max(0.0, deadline - time.monotonic()))

    # -- state

    def _restore(self) -> None:
        for index, (baseline, trials) in enumerate(self._recorder.restored(self._searches)):
            self._state.restore(index, baseline, trials)
            self._restored += len(trials)

    def _name(self, task: int) -> str:
        return self._searches[task].task.name

    def snapshot(self) -> Snapshot:
        now = time.monotonic()
        elapsed, up = now - self._began, self._state.slots_up
        waiting = self._fleet.waiting() if not up and isinstance(self._fleet, fl.Queueing) else ""
        tasks = tuple(
            task_progress(search, state, self._options, len(self._searches), self._errors.get(state.index))
            for search, state in zip(self._searches, self._state.tasks)
        )
        use, overhead = self._usage.so_far(now), self._activity.overhead(elapsed)
        done, before = sum(t.done for t in tasks), self._recorder.use_before.held_s
        rate = (done - self._restored) / elapsed if elapsed > 0 else 0.0
        eta = time_left(self._options, tasks, rate, elapsed, before + self._usage.held_s(now), up)
        self._forecaster.note(done, [WeightedKernel(t.model, t.calls, t.cost) for t in tasks])
        minute = self._forecaster.minute(done, rate, eta)
        return Snapshot(self._recorder.run_id, elapsed, up, tasks, rate, eta, use, waiting, overhead, minute, before)


_BASELINE_PATIENCE = 6  # untuned code may be that much slower than any candidate may be
_LEAST_FLOPS = 1e8  # a second, of untuned code that waits for memory at every step


def measurement(
    command: SubmitMeasure, rounding: Rounding, options: RunOptions, flops: float = 0.0, weights: tuple[int, ...] = ()
) -> tuple[MeasureRequest, tuple[Artifact, ...]]:
    """The request, and the artifacts it names.
    Outputs may differ by what `options` allows, or by `rounding` if that is more. The untuned function, of `flops`
    operations, has more time than candidates, because large ones take minutes. The arguments at `weights` are a
    model's: they are not in the caches when it is called."""
    purpose = command.job.purpose
    candidate = Artifact.from_bytes(command.artifact)
    reference = _reference(command.reference)
    baseline = purpose is TrialPurpose.BASELINE
    untuned_timeout_s = max(_BASELINE_PATIENCE * options.run_timeout_s, flops / _LEAST_FLOPS)
    request = MeasureRequest(
        artifact=candidate.digest, seed=options.seed, options=options.evaluator(purpose, command.best),
        timeout_s=untuned_timeout_s if baseline else options.run_timeout_s, reference=reference.digest,
        reference_timeout_s=untuned_timeout_s, rtol=max(options.rtol, rounding.relative),
        atol=max(options.atol, rounding.absolute), device_type=device_type(candidate), cold=weights,
    )  # fmt: skip
    return request, (candidate,) if candidate.digest == reference.digest else (candidate, reference)


@lru_cache(maxsize=32)
def _reference(data: bytes) -> Artifact:
    """A task's reference goes along with each of its trials: it is read once."""
    return Artifact.from_bytes(data)
