"""Runners of candidates."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.hooks import EvaluatorConfig
from tuner.faces.meta_schedule.measure_types import RunnerFuture, RunnerInput, RunnerResult
from tuner.faces.meta_schedule.own_measuring import PyRunner
from tuner.faces.meta_schedule.runner import LocalRunner, PyRunnerFuture, RPCConfig, RPCRunner, Runner

create = Runner.create

__all__ = [
    "EvaluatorConfig", "LocalRunner", "PyRunner", "PyRunnerFuture", "RPCConfig", "RPCRunner", "Runner", "RunnerFuture",
    "RunnerInput", "RunnerResult", "create",
]  # fmt: skip

refuse_other_names(__name__)
