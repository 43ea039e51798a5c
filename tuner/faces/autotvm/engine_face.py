"""Templates on the engine.

A tuner as its search strategy, configs as its candidates, trials as tuning records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tuner.build.process_builder import CandidateBuilder, FuncSource, pack_func
from tuner.devices.fleet import Fleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch
from tuner.engine.progress import TrialDone
from tuner.errors import TuningError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.space import ConfigEntity
from tuner.faces.autotvm.task import Task
from tuner.faces.common.engine import FaceBuilder, FaceRunner, RememberedResults, opened
from tuner.faces.common.measure_error import MeasureErrorNo
from tuner.faces.common.trials import SearchTrials
from tuner.records.lookup.keys import candidate_digest
from tuner.records.store import RecordStore
from tuner.search.base import Proposal, Strategy
from tuner.task import TuningTask

_TEMPLATE_ATTR = "tunefarm.template"
"""Makes a template's workload one of its own in a store: its configs are no schedule traces, and nobody who builds the
same computation without the template could use them."""


@dataclass(frozen=True)
class ConfigProposal:
    """A config as the engine's candidate."""

    task: Task
    config: ConfigEntity

    @cached_property
    def trace_json(self) -> str:
        """The recorded trace: the template, its arguments and the config."""
        chosen = {"template": self.task.name, "args": self.task.args, "config": self.config.to_json_dict()}
        return json.dumps({"autotvm": chosen}, sort_keys=True)

    @cached_property
    def digest(self) -> str:
        return candidate_digest(self.trace_json)


def tuning_task(task: Task) -> TuningTask:
    """The engine's task for a template with its arguments."""
    assert task.target is not None
    name = f"{task.name}({', '.join(map(str, task.args))})"
    return TuningTask(name, task.untuned.with_attr(_TEMPLATE_ATTR, task.name), task.target.resolved())


class Tuned(Protocol):
    """The engine's interface to a tuner."""

    task: Task

    def next_batch(self, batch_size: int) -> list[ConfigEntity]: ...
    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None: ...
    def note(self, count: int, inp: MeasureInput, result: MeasureResult) -> None: ...


T = TypeVar("T", bound=Tuned)


class _FromTuner:
    """A tuner, asked and told as the engine does."""

    def __init__(self, tuner: Tuned) -> None:
        self._tuner = tuner

    def ask(self, count: int) -> Sequence[Proposal]:
        return [ConfigProposal(self._tuner.task, config) for config in self._tuner.next_batch(count)]

    def tell(self, candidate: Proposal, cost: float | None) -> None:
        inp, result = _known(candidate, cost)
        self._tuner.update([inp], [result])


class _FromList:
    """Given configs, in order."""

    def __init__(self, proposals: Sequence[ConfigProposal]) -> None:
        self._left = list(proposals)

    def ask(self, count: int) -> Sequence[Proposal]:
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def tell(self, candidate: Proposal, cost: float | None) -> None:
        pass


def _result(done: TrialDone) -> MeasureResult:
    costs: tuple[float | str, ...] = done.samples if done.failure is None else (done.text,)
    return MeasureResult(costs, MeasureErrorNo.of(done.failure), done.build_s + done.measure_s, done.timestamp)


def _input(candidate: ConfigProposal) -> MeasureInput:
    assert candidate.task.target is not None
    return MeasureInput(candidate.task.target, candidate.task, candidate.config)


def _known(candidate: Proposal, cost: float | None) -> tuple[MeasureInput, MeasureResult]:
    """A result of which only the cost is known; None: it failed."""
    assert isinstance(candidate, ConfigProposal)
    if cost is None:
        return _input(candidate), MeasureResult(("failed",), MeasureErrorNo.UNKNOWN_ERROR, 0.0, time.time())
    return _input(candidate), MeasureResult((cost,), MeasureErrorNo.NO_ERROR, 0.0, time.time())


def tune_on_engine(
    tuner: T, n_trial: int, face_builder: FaceBuilder, face_runner: FaceRunner, early_stopping: int,
    callbacks: Sequence[Callable[[T, Sequence[MeasureInput], Sequence[MeasureResult]], None]],
    store: RecordStore | str | Path | None,
) -> None:  # fmt: skip
    """Tune on the engine, for `Tuner.tune`."""
    trials = 0

    def finished(inp: MeasureInput, result: MeasureResult) -> None:
        nonlocal trials
        trials += 1
        tuner.note(trials, inp, result)
        for callback in callbacks:
            callback(tuner, [inp], [result])

    options = _options(face_builder, face_runner, n_trial, early_stopping)
    builder = face_builder.open()
    try:
        fleet = face_runner.open()
        try:
            with opened(store) as records:
                _run(tuner.task, _FromTuner(tuner), options, builder, fleet, records, finished)
        finally:
            fleet.close()
    finally:
        builder.close()


def measure_on_engine(
    task: Task, inputs: Sequence[MeasureInput], face_builder: FaceBuilder, face_runner: FaceRunner,
    builder: CandidateBuilder, fleet: Fleet,
) -> list[MeasureResult]:  # fmt: skip
    """Measure `inputs` of `task`, each config once; results in the order of the inputs."""
    wanted = {inp.config: ConfigProposal(task, inp.config) for inp in inputs}
    found: dict[ConfigEntity, MeasureResult] = {}
    # failing alike is for whoever asked to judge: every input gets its result
    options = _options(face_builder, face_runner, len(wanted), 0, equal_failures=len(wanted) + 1)

    def finished(inp: MeasureInput, result: MeasureResult) -> None:
        found[inp.config] = result

    _run(task, _FromList(list(wanted.values())), options, builder, fleet, None, finished)
    return [found[inp.config] for inp in inputs]


def _options(builder: FaceBuilder, runner: FaceRunner, trials: int, early_stopping: int, **more: Any) -> RunOptions:
    return RunOptions(
        trials=trials,
        early_stopping=early_stopping,
        builders=builder.n_parallel,
        build_timeout_s=builder.timeout,
        run_timeout_s=runner.timeout,
        samples=runner.repeat,
        max_samples=runner.repeat,
        reject=False,
        finalists=1,  # a log has one result for a config
        **more,
    )


def _run(
    task: Task, strategy: Strategy, options: RunOptions, builder: CandidateBuilder, fleet: Fleet,
    store: RecordStore | None, then: Callable[[MeasureInput, MeasureResult], None],
) -> None:  # fmt: skip
    def source(candidate: Proposal | None) -> FuncSource:
        if candidate is None:
            return FuncSource(pack_func(task.untuned))
        assert isinstance(candidate, ConfigProposal)
        return FuncSource(pack_func(task.prim_func(candidate.config)))

    remembered = RememberedResults(strategy)
    tuned = tuning_task(task)
    search = TaskSearch(task=tuned, strategy=remembered, recognise=lambda digest, trace: None, source=source)

    def tell(_: int, candidate: Proposal, done: TrialDone) -> None:
        assert isinstance(candidate, ConfigProposal)
        then(_input(candidate), _result(done))

    watcher = SearchTrials(tell, [remembered])
    outcome = tune([search], fleet=fleet, builder=builder, options=options, store=store, watcher=watcher)
    error = outcome.snapshot.tasks[0].error
    if error is not None:
        raise TuningError(f"{tuned.name}: {error}")
    for candidate, cost in remembered.known():  # a log is to have them too: one of them may be the best
        then(*_known(candidate, cost))
