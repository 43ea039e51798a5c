"""Runners of candidates."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.hooks import EvaluatorConfig
from tuner.faces.meta_schedule.measure_types import RunnerFuture, RunnerInput, RunnerResult
from tuner.faces.meta_schedule.own_measuring import PyRunner
from tuner.faces.meta_schedule.runner import LocalRunner, PyRunnerFuture, RPCConfig, RPCRunner, Runner

create = Runner.create

__all__ = [
    "EvaluatorConfig",
    "LocalRunner",
    "PyRunner",
    "PyRunnerFuture",
    "RPCConfig",
    "RPCRunner",
    "Runner",
    "RunnerFuture",
    "RunnerInput",
    "RunnerResult",
    "create",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
