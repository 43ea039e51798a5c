"""Requests and replies of the API about lookups."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.goals import Goal
from tuner.records import model
from tuner.records.farm.model_farm import ReleaseEntry
from tuner.records.lookup.matching import Choice
from webui.api.models import Config
from webui.api.shown import ApiObject, Shown, shows

MOST_LOOKUPS = 1000


class BestReply(ApiObject):
    """`match` is `exact`, `compatible` or `nearest`; `explain` says what matched and what did not.
    `trace` (JSON text) is what to replay. `config` is null for `nearest`, whose trace was adapted from `source`, the
    config of another workload, and was never measured. With `as_written` the function itself was faster than
    `config`, and is what to build."""

    match: Literal["exact", "compatible", "nearest"]
    explain: list[str]
    trace: str
    config: Config | None
    source: Config | None = None
    as_written: bool = False

    @staticmethod
    def of(found: model.BestLookup) -> BestReply:
        """Make the reply to a lookup that is no miss."""
        assert found.config is not None
        assert found.trace is not None
        assert found.match != "miss"
        config = Config.of(found.config)
        near = found.match == "nearest"
        return BestReply(
            match=found.match,
            explain=list(found.explain),
            trace=found.trace,
            config=None if near else config,
            source=config if near else None,
            as_written=not near and found.config.as_written,
        )


@shows(model.RunnerUp, renamed={"cost": "cost_s", "low": "low_s", "high": "high_s", "sample_count": "samples"})
class RunnerUp(Shown):
    """A candidate that is not the best.
    A `tie` cannot be told from it: their 95 % intervals overlap. `joules` are those of a call where they are what
    counts."""


class ExplainReply(ApiObject):
    """A lookup with all that is known about it; a miss is an answer here, too.
    `others` are the workload's configs for other places."""

    match: model.Match
    explain: list[str]
    config: Config | None
    runners_up: list[RunnerUp]
    ties: int
    others: list[Config]


class Lookup(BaseModel):
    """One question of a batch.
    `function` is the script of one the store may not have, so that the config of a nearby workload can be adapted to
    it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workload: str = Field(min_length=1, max_length=64)
    function: str = Field(default="", max_length=1_000_000)


class Batch(BaseModel):
    """The lookups of a whole build, on one target. With `release`, only its configs count. They are chosen
    by `objective`, "time" or "energy"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lookups: list[Lookup] = Field(min_length=1, max_length=MOST_LOOKUPS)
    target: str = Field(min_length=1, max_length=4000)
    device_class: str | None = Field(default=None, max_length=400)
    toolchain: str | None = Field(default=None, max_length=200)
    release: str | None = Field(default=None, max_length=100)
    nearest: bool = True
    objective: Goal = Goal.TIME


class Answer(ApiObject):
    """An answer to one question.
    All but `workload`, `match` and `explain` are null for a miss. With `as_written` the function itself was better
    than its best config, and is what to build. `joules` are those of a call, where the config was chosen by energy."""

    workload: str
    match: model.Match
    explain: list[str]
    trace: str | None = None
    digest: str | None = None
    cost_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    target: str | None = None
    device_class: str | None = None
    toolchain: str | None = None
    as_written: bool = False
    joules: float | None = None

    @staticmethod
    def of(workload: str, found: model.BestLookup | Choice[ReleaseEntry]) -> Answer:
        config = found.config
        if config is None:
            return Answer(workload=workload, match=found.match, explain=list(found.explain))
        near = found.match == "nearest"  # the times are another workload's
        return Answer(
            workload=workload,
            match=found.match,
            explain=list(found.explain),
            trace=(found.adapted if isinstance(found, model.BestLookup) else None) or config.trace,
            digest=None if near else config.digest,
            cost_s=None if near else config.cost,
            low_s=None if near else config.low,
            high_s=None if near else config.high,
            target=config.target,
            device_class=config.device_class,
            toolchain=config.toolchain,
            as_written=isinstance(config, model.BestConfig) and not near and config.as_written,
            joules=config.joules if isinstance(config, model.BestConfig) and not near else None,
        )


class BatchReply(ApiObject):
    """An answer to each question, in their order."""

    answers: list[Answer]
    misses: int
