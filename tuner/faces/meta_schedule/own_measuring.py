"""Bases of builders and runners that a program writes itself."""

from __future__ import annotations

from tuner.faces.meta_schedule.builder import Builder
from tuner.faces.meta_schedule.hooks import EvaluatorConfig
from tuner.faces.meta_schedule.own_engine import OwnBuilds, OwnFleet
from tuner.faces.meta_schedule.runner import Runner


class PyBuilder(Builder):
    """Base of builders that a program writes: override `build`.
    Its files have to be artifacts ("x.tunefarm")."""

    timeout_s = 30.0

    def engine_builder(self) -> OwnBuilds:
        return OwnBuilds(self.build)


class PyRunner(Runner):
    """Base of runners that a program writes: override `run`."""

    timeout_sec = 30.0
    asked = None
    evaluator_config = EvaluatorConfig()
    cooldown_sec = 0.0

    def __init__(self) -> None:
        """Take nothing; `__init__` need not be called by one that a subclass has."""

    def fleet(self) -> OwnFleet:
        return OwnFleet(type(self).__name__, self.run)
