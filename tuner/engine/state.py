"""The tuning engine's decisions, without I/O: events in, commands out.

Every device slot is kept busy. Candidates are asked for, claimed and built ahead of the measurements, results are
told to the search as they arrive, and there are no rounds. Each task goes through three stages. The first is its
untuned build: the baseline, and the reference for every candidate's output. Then comes the search. In the finals the
best few and what the store serves are measured again, in turns, on one device. The untuned build is measured last.
If it takes another time than at first, the machine changed meanwhile. While a device measures the baseline, the
first candidates are built; their results count once it is known.

Every search candidate that is asked for ends in exactly one way: a recorded trial, another run's result (`Known`), or
a released claim. Only a candidate whose device vanished is measured again.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from typing import assert_never

from rpc_server.wire.trial_messages import FailureKind
from tuner.build.process_builder import CandidateBuild
from tuner.engine import events as ev
from tuner.engine import finals as engine_finals
from tuner.engine.budget import BudgetLimits, share_time
from tuner.engine.jobs import DEPTH, Jobs, Ready
from tuner.engine.scheduling import Chooser, Objective, choose
from tuner.engine.task_state import Plan, Restored, TaskState
from tuner.engine.turns import Turns, crowded
from tuner.goals import NO_ENERGY, Goal, watts_of
from tuner.records.model import TrialPurpose


class EngineState:
    """See the module's text. Not thread safe: one thread feeds it."""

    def __init__(
        self,
        plans: Sequence[Plan],
        limits: BudgetLimits,
        objective: Objective | None = None,
        chooser: Chooser | None = None,
    ) -> None:
        self.limits = limits
        self.tasks = [TaskState(i, p) for i, p in enumerate(plans)]
        self.ended = False
        self._objective = objective
        self._chooser = chooser
        self.jobs = Jobs()
        self._turns = Turns()
        self._lost: Counter[int] = Counter()
        self._elapsed = 0.0
        self._device_s = 0.0
        self._device_seen = False

    # -- what the outside may look at

    @property
    def slots_up(self) -> int:
        return len(self.jobs.slots)

    def in_flight(self, task: int) -> int:
        """The task's jobs that are claimed, built, waiting or measured."""
        return sum(job.task == task for job in self.jobs.under_way())

    def would_go_on(self, limits: BudgetLimits, besides: Collection[int] = ()) -> bool:
        """Whether a task, none of `besides`, could go on searching within other limits."""
        left = [t for t in self.tasks if t.index not in besides and not t.exhausted]
        return any(limits.allow(t, self.tasks, self._elapsed, self._device_s) for t in left)

    def restore(self, task: int, baseline_cost: float | None, trials: Sequence[Restored]) -> None:
        """Take up a task where an earlier session left it; call before `start`."""
        self.tasks[task].restore(baseline_cost, trials)

    # -- events

    def start(self) -> list[ev.Command]:
        """Begin: build every task's reference."""
        waiting = [t.index for t in self.tasks if not t.ended]
        return [self._submit(self.jobs.new(task, TrialPurpose.BASELINE, None)) for task in waiting]

    def handle(self, event: ev.Event) -> list[ev.Command]:
        """Take in an event and go on."""
        return [*self.hear(event), *self.go_on()]

    def hear(self, event: ev.Event) -> list[ev.Command]:
        """Handle an event, and return its commands without asking the search for more.
        The search may take long to think. `go_on` comes after it, or after several."""
        if self.ended:
            return []
        commands: list[ev.Command] = []
        match event:
            case ev.Claimed() | ev.Known() | ev.Taken():
                commands += self._on_claim(event)
            case ev.Built():
                commands += self._on_built(event)
            case ev.JobMeasured():
                commands += self._on_measured(event)
            case ev.SlotUp():
                self.jobs.slots.up(event.slot, event.cores)
                self._device_seen = True
            case ev.SlotDown():
                commands += self._lose(event.slot, event.reason)
            case ev.Incumbent():
                self.tasks[event.task].incumbent = event.candidate
            case ev.EngineTick():
                searched = [t for t in self.tasks if t.finals is None and self.in_flight(t.index)]
                share_time(searched, event.elapsed_s - self._elapsed)
                self._elapsed, self._device_s = event.elapsed_s, event.device_s
                commands += self._ask_again()
            case ev.Stop():
                self.ended = True
                return [ev.RunEnded(event.reason)]
            case _:
                assert_never(event)
        commands += self._drop_late()
        commands += self._feed_slots()
        return commands

    # -- claims

    def _on_claim(self, event: ev.Claimed | ev.Known | ev.Taken) -> list[ev.Command]:
        job = event.job
        del self.jobs.claiming[job.id]
        task = self.tasks[job.task]
        assert job.candidate is not None
        match event:
            case ev.Claimed():
                late = task.ended or self._out_of_time(task)
                return self._release(job) if late else [self._submit(job)]
            case ev.Known(_, cost, _):
                task.asked -= 1
                task.learned(job.candidate, cost)
            case ev.Taken():
                task.asked -= 1
                self.jobs.taken[job.id] = job
        return []

    def _ask_again(self) -> list[ev.Command]:
        """Ask again for candidates that other runs had: there may be a result by now, or the run has died."""
        waiting, self.jobs.taken = self.jobs.taken, {}
        return [self._claim(job) for job in waiting.values() if self._in_budget(self.tasks[job.task])]

    def _claim(self, job: ev.Job) -> ev.Claim:
        self.tasks[job.task].asked += 1
        self.jobs.claiming[job.id] = job
        return ev.Claim(job)

    def _release(self, job: ev.Job) -> list[ev.Command]:
        """Give up a claimed search candidate that no device has seen."""
        if job.purpose is not TrialPurpose.SEARCH:
            return []
        self.tasks[job.task].asked -= 1
        return [ev.LeaveSlot(job)]

    # -- builds

    def _on_built(self, event: ev.Built) -> list[ev.Command]:
        known = self.jobs.building.pop(event.job.id, None) is not None
        return self._after_build(event) if known else []

    def _after_build(self, event: ev.Built) -> list[ev.Command]:
        job, result = event.job, event.result
        task = self.tasks[job.task]
        if task.ended:
            return self._release(job)
        if result.artifact is None:
            if job.purpose is TrialPurpose.SEARCH and not task.begun:
                self.jobs.early.append(event)
                return []
            if job.purpose is TrialPurpose.BASELINE:
                return self._give_up(task, f"the untuned function does not build: {result.text}")
            kind = result.failure or FailureKind.BUILD
            return [ev.RecordTrial(job, None, result, None, kind, result.text), *self._failed(job, kind, result.text)]
        match job.purpose:
            case TrialPurpose.BASELINE:
                task.reference = result.artifact
                if task.baseline_cost is None:  # else measured before the run was resumed
                    self.jobs.put_first(Ready(job, result))
            case TrialPurpose.SEARCH:
                self.jobs.ready.append(Ready(job, result))
            case TrialPurpose.FINAL:
                engine_finals.built(task, job, result)
            case _:
                assert_never(job.purpose)
        return []

    # -- measurements

    def _on_measured(self, event: ev.JobMeasured) -> list[ev.Command]:
        job, result = event.job, event.result
        held = self.jobs.slots.current(event.slot)
        if held is None or held.job.id != job.id:
            return []  # a late answer from a slot that was given up
        if result.failure is FailureKind.DEVICE_LOST:
            return self._lose(event.slot, result.text)  # it reports for work again when it has another device
        self.jobs.slots.done(event.slot)
        record = ev.RecordTrial(job, event.slot, held.build, result, result.failure, result.text)
        task = self.tasks[job.task]
        if job.purpose is TrialPurpose.SEARCH:
            task.spent(held.build.seconds, result.elapsed_s)
        if result.failure is not None:
            if job.purpose is TrialPurpose.BASELINE and task.finals is None:
                return [record, *self._give_up(task, f"the untuned function fails: {result.text}")]
            return [record, *self._failed(job, result.failure, result.text)]
        task.watts = watts_of(result.costs, result.environment) or task.watts
        costs = self.limits.goal.costs(result.costs, result.environment, task.watts)
        if costs is None:
            return [record, *self._give_up(task, NO_ENERGY)]
        self._succeeded(task, job, held.build, costs)
        return [record, *self._early_failures(task)]

    def _early_failures(self, task: TaskState) -> list[ev.Command]:
        """Builds that failed before the baseline was known, now that it is."""
        if not task.begun:
            return []
        return [command for event in self.jobs.take_early(task.index) for command in self._after_build(event)]

    def _lose(self, slot: int, reason: str) -> list[ev.Command]:
        begun = self.jobs.lose(slot)
        return [] if begun is None else self._retry_or_fail(begun, slot, reason)

    def _retry_or_fail(self, held: Ready, slot: int, reason: str) -> list[ev.Command]:
        """Give a job whose device vanished to another device.
        A job that loses several devices is suspected itself."""
        job = held.job
        self._lost[job.id] += 1
        if self.tasks[job.task].ended:
            return self._release(job)
        if self._lost[job.id] <= self.limits.lost_retries:
            self.jobs.ready.appendleft(held)
            return []
        text = f"the device was lost {self._lost[job.id]} times under this candidate: {reason}"
        kind = FailureKind.DEVICE_LOST
        if job.purpose is TrialPurpose.BASELINE and self.tasks[job.task].finals is None:
            return self._give_up(self.tasks[job.task], text)
        return [ev.RecordTrial(job, slot, held.build, None, kind, text), *self._failed(job, kind, text)]

    def _succeeded(self, task: TaskState, job: ev.Job, build: CandidateBuild, samples: Sequence[float]) -> None:
        match job.purpose:
            case TrialPurpose.BASELINE if task.finals is None:
                task.baseline_cost = statistics.median(samples)
            case TrialPurpose.BASELINE:
                task.last_baseline_cost = statistics.median(samples)
            case TrialPurpose.SEARCH:
                assert job.candidate is not None
                task.succeeded(job.candidate, statistics.median(samples), build)
            case TrialPurpose.FINAL:
                engine_finals.measured(task, job, samples)
            case _:
                assert_never(job.purpose)

    def _failed(self, job: ev.Job, kind: FailureKind, text: str) -> list[ev.Command]:
        task = self.tasks[job.task]
        if job.purpose is TrialPurpose.BASELINE:  # the last one, which nothing depends on
            task.note_failure(kind, text)
            return []
        if job.purpose is TrialPurpose.FINAL:
            task.note_failure(kind, text)
            engine_finals.failed(task, job)
            return []
        task.failed(job.candidate, kind, text)
        if task.ended or not task.is_like(self.limits.equal_failures, kind):
            return []
        return self._give_up(
            task, f"the first {task.done} trials all failed with {kind}; the first one:\n{task.first_failure}"
        )

    # -- moving on

    def go_on(self) -> list[ev.Command]:
        """Ask for more candidates, and end tasks that have none left. Returns the commands."""
        if self.ended:
            return []
        takes_turns = self._takes_turns()
        if takes_turns:
            self._turns.after_measuring(self.jobs, any(t.finals is not None and not t.ended for t in self.tasks))
        commands = self._feed_builders(takes_turns)
        for task in self.tasks:
            commands += self._finish_if_done(task)
        if takes_turns:
            self._turns.after_building(self.jobs)
        commands += self._feed_slots()
        if not self.ended and all(t.ended for t in self.tasks):
            self.ended = True
            commands.append(ev.RunEnded("done"))
        return commands

    def _takes_turns(self) -> bool:
        """Whether kernels and builds disturb each other on every device, and times are to be exact."""
        cores = self.jobs.slots.shared_cores()
        return any(self._wants_quiet(t) and crowded(t.plan.threads, self.limits.builders, cores) for t in self.tasks)

    def _wants_quiet(self, task: TaskState) -> bool:
        spent = self.limits.spent(task, self.tasks, self._elapsed, self._device_s)
        return (task.finals is not None or spent >= self.limits.quiet_from) and not task.ended

    def _feed_builders(self, takes_turns: bool) -> list[ev.Command]:
        commands: list[ev.Command] = []
        target = self.limits.builders + self.limits.build_ahead * max(1, len(self.jobs.slots))
        while self._turns.may_ask(self.jobs, target) if takes_turns else self.jobs.to_come < target:
            able = [t for t in self.tasks if self._may_ask(t)]
            task = self._choose(able)
            if task is None:
                break
            candidate = task.next_candidate()
            if candidate is not None:
                commands.append(self._claim(self.jobs.new(task.index, TrialPurpose.SEARCH, candidate)))
        if takes_turns and not commands and self._turns.may_think_ahead(self.jobs):
            task = self._choose([t for t in self.tasks if self._may_ask(t)])
            if task is not None:
                task.think_ahead()
        return commands

    def _choose(self, able: Sequence[TaskState]) -> TaskState | None:
        if not able or (len(able) == 1 and self._chooser is None):
            return able[0] if able else None
        views = [t.view(len(self.jobs.slots), self.limits.builders) for t in self.tasks]
        among = [views[t.index] for t in able]
        if self._chooser is not None:
            chosen = self._chooser(among, views)
        else:
            chosen = choose(among, self.limits.policy, self.limits.gradient, views, self._objective)
        return None if chosen is None else self.tasks[chosen]

    def _may_ask(self, task: TaskState) -> bool:
        built = task.reference is not None
        return built and self._device_seen and not task.exhausted and self._in_budget(task)

    def _in_budget(self, task: TaskState) -> bool:
        searching = not task.ended and task.finals is None
        return searching and self.limits.allow(task, self.tasks, self._elapsed, self._device_s)

    def _out_of_time(self, task: TaskState) -> bool:
        return self.limits.out_of_time(task, self._elapsed, self._device_s)

    def _drop_late(self) -> list[ev.Command]:
        """Candidates that wait for a device when their task's time is up."""

        def is_late(job: ev.Job) -> bool:
            return job.purpose is TrialPurpose.SEARCH and self._out_of_time(self.tasks[job.task])

        return [command for job in self.jobs.withdraw(is_late) for command in self._release(job)]

    def _feed_slots(self) -> list[ev.Command]:
        commands: list[ev.Command] = []
        slots, takes_turns = self.jobs.slots, self._takes_turns()
        for held in range(DEPTH):
            for slot in slots.holding(held):
                commands += self._feed(slot, held > 0, takes_turns)
        return commands

    def _feed(self, slot: int, at_hand: bool, takes_turns: bool) -> list[ev.Command]:
        """Give a slot what it can measure.
        `at_hand` is a job for after its present one. Such a job gains nothing while another slot is idle, but no
        other slot may have what belongs to the finals."""
        scarce = at_hand and self.jobs.to_come < len(self.jobs.slots)

        def may_have(ready: Ready) -> bool:
            in_turn = not takes_turns or self._turns.may_measure(ready.job.purpose)
            return in_turn and self._fits(ready, slot) and (not scarce or self._is_of_finals(ready.job))

        ready = self.jobs.take(may_have)
        if ready is None:
            return []
        self.jobs.slots.give(slot, ready)
        task = self.tasks[ready.job.task]
        assert ready.build.artifact is not None
        assert task.reference is not None
        in_seconds = ready.job.purpose is TrialPurpose.SEARCH and self.limits.goal is Goal.TIME
        best = task.best_cost if in_seconds else None
        return [ev.SubmitMeasure(ready.job, slot, ready.build.artifact, task.reference, best)]

    def _fits(self, ready: Ready, slot: int) -> bool:
        """The search waits for the baseline, and finals for their device."""
        task = self.tasks[ready.job.task]
        if ready.job.purpose is TrialPurpose.SEARCH:
            return task.begun
        return task.finals is None or engine_finals.on_its_device(task.finals, slot, self.jobs.slots)

    def _is_of_finals(self, job: ev.Job) -> bool:
        return job.purpose is not TrialPurpose.SEARCH and self.tasks[job.task].finals is not None

    # -- the end of a task

    def _finish_if_done(self, task: TaskState) -> list[ev.Command]:
        if task.ended or not task.begun or self._may_ask(task):
            return []
        if task.finals is not None:
            return self._go_on_with_finals(task)
        if self.in_flight(task.index) or (task.exhausted and self._awaits(task)):
            return []
        if task.ranking and not self._device_seen:
            return []  # a resumed run with nothing left to ask for: its finals need a device
        return self._begin_finals(task)

    def _awaits(self, task: TaskState) -> bool:
        """Whether another run works on candidates of the task; its results still count here."""
        return any(job.task == task.index for job in self.jobs.taken.values()) and not self._out_of_time(task)

    def _begin_finals(self, task: TaskState) -> list[ev.Command]:
        missing = engine_finals.begin(task, self.jobs, self.limits.finalists, self.limits.final_rounds)
        return [self._submit(job) for job in missing] if missing else self._go_on_with_finals(task)

    def _go_on_with_finals(self, task: TaskState) -> list[ev.Command]:
        """Give out turns: one to be measured, one to have at hand."""
        assert task.finals is not None
        if task.finals.building:
            return []
        while self.in_flight(task.index) < DEPTH:
            if not engine_finals.next_turn(task, self.jobs, self._device_seen):
                break
        if self.in_flight(task.index):
            return []
        task.crown()
        task.ended = True
        return [ev.TaskEnded(task.index, None)]

    def _give_up(self, task: TaskState, error: str) -> list[ev.Command]:
        task.ended = True
        waiting = self.jobs.withdraw(lambda job: job.task == task.index)
        waiting += [event.job for event in self.jobs.take_early(task.index)]
        released = [command for job in waiting for command in self._release(job)]
        return [*released, ev.TaskEnded(task.index, error)]

    def _submit(self, job: ev.Job) -> ev.SubmitBuild:
        self.jobs.building[job.id] = job
        return ev.SubmitBuild(job)
