"""Runners of candidates."""

from tuner.faces.meta_schedule.runner import (
    EvaluatorConfig,
    LocalRunner,
    PyRunner,
    RPCConfig,
    RPCRunner,
    Runner,
    RunnerFuture,
    RunnerInput,
    RunnerResult,
)

create = Runner.create

__all__ = [
    "EvaluatorConfig",
    "LocalRunner",
    "PyRunner",
    "RPCConfig",
    "RPCRunner",
    "Runner",
    "RunnerFuture",
    "RunnerInput",
    "RunnerResult",
    "create",
]
