"""Builders, runners and mutators that do nothing, for tests of what calls them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from compiler.schedule.core.trace import Trace
from tuner.faces.meta_schedule.measure_types import BuilderInput, BuilderResult, RunnerFuture, RunnerInput, RunnerResult
from tuner.faces.meta_schedule.own_measuring import PyBuilder, PyRunner
from tuner.faces.meta_schedule.spaces.mutator import PyMutator

__all__ = ["DummyBuilder", "DummyMutator", "DummyRunner"]


class DummyBuilder(PyBuilder):
    """Builds nothing."""

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        return [BuilderResult("test_path", None) for _ in build_inputs]


class DummyRunner(PyRunner):
    """Makes the times up."""

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        times = [[random.uniform(5, 30) for _ in range(random.randint(1, 10))] for _ in runner_inputs]
        return [RunnerFuture.of(RunnerResult(seconds, None)) for seconds in times]


class DummyMutator(PyMutator):
    """Drops the decisions."""

    def apply(self, trace: Trace, rand_state: int = 0) -> Trace | None:
        return trace.with_decisions([None] * len(trace.sampling_steps))
