"""The record of a tuned family.

Its sizes, the portfolio's configs with their times, and the rule that picks.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from compiler.errors import ArtifactError
from compiler.size_rule import Size, SizeRule
from tuner.families.configs import FamilyConfig
from tuner.families.portfolio import TimeTable, choose_portfolio
from tuner.families.rule import Dispatch, Explanation, explain, make_dispatch, rule_lines
from tuner.families.sizes import FamilyError, SizeList

FORMAT = "tunefarm.family"
VERSION = 1


@dataclass(frozen=True)
class FamilyRecord:
    """A family as it was tuned on one target.

    `seconds[member][size]` are the portfolio's times, None where a config was not measured. `best` is the lowest time
    at each size of all configs that were tried, `untuned` that of the function without a schedule. `traces` holds at
    each size the tuning record of the pick. `what` names the function: a spec, or a file with a kernel's name.
    """

    name: str
    what: Mapping[str, Any]
    target: str
    sizes: SizeList
    configs: tuple[FamilyConfig, ...]
    seconds: tuple[tuple[float | None, ...], ...]
    best: tuple[float | None, ...]
    untuned: tuple[float | None, ...]
    traces: tuple[str | None, ...]
    dispatch: Dispatch
    loss: float
    exact: bool
    trials: int = 0
    library: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    @property
    def rule(self) -> SizeRule:
        return self.dispatch.rule

    @cached_property
    def digest(self) -> str:
        """Names the record: equal for records that build the same."""
        kept = {
            k: v for k, v in self.to_json().items() if k in ("what", "target", "sizes", "configs", "traces", "rule")
        }
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def explain(self, size: Sequence[int]) -> Explanation:
        """Say which kernel a size gets, why, and how sure that is. Raises FamilyError for a size that is none."""
        return explain(self.dispatch, size, [str(config) for config in self.configs])

    def rule_lines(self) -> tuple[tuple[str, str], ...]:
        """The tests of the rule for a size that was not measured, and the config that it picks then."""
        return rule_lines(self.rule, [str(config) for config in self.configs])

    def size_of(self, named: Mapping[str, int]) -> Size:
        """Sizes by name in the symbols' order. Raises FamilyError for others or too few."""
        if set(named) != set(self.sizes.symbols):
            raise FamilyError(f"{self.name} has sizes for {', '.join(self.sizes.symbols)}, not {', '.join(named)}")
        return tuple(named[symbol] for symbol in self.sizes.symbols)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "what": dict(self.what),
            "target": self.target,
            "sizes": self.sizes.to_json(),
            "configs": [config.to_json() for config in self.configs],
            "seconds": [list(row) for row in self.seconds],
            "best": list(self.best),
            "untuned": list(self.untuned),
            "traces": list(self.traces),
            "rule": self.rule.to_json(),
            "held_out": None if math.isnan(self.dispatch.held_out) else self.dispatch.held_out,
            "errors": list(self.dispatch.errors),
            "loss": self.loss,
            "exact": self.exact,
            "trials": self.trials,
            "library": {name: list(times) for name, times in self.library.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FamilyRecord:
        """The inverse of `to_json`. Raises FamilyError for anything else."""
        if data.get("format") != FORMAT or data.get("version") != VERSION:
            raise FamilyError("this is no record of a family that this version knows")
        try:
            held_out = math.nan if data["held_out"] is None else float(data["held_out"])
            rule = SizeRule.from_json(data["rule"])
            record = FamilyRecord(
                name=str(data["name"]), what=dict(data["what"]), target=str(data["target"]),
                sizes=SizeList.from_json(data["sizes"]), configs=tuple(map(FamilyConfig.from_json, data["configs"])),
                seconds=tuple(map(_times, data["seconds"])), best=_times(data["best"]), untuned=_times(data["untuned"]),
                traces=tuple(None if trace is None else str(trace) for trace in data["traces"]),
                dispatch=Dispatch(rule, held_out, tuple(map(float, data["errors"]))), loss=float(data["loss"]),
                exact=bool(data["exact"]), trials=int(data["trials"]),
                library={str(name): _times(times) for name, times in data["library"].items()},
            )  # fmt: skip
        except (AttributeError, KeyError, TypeError, ValueError, ArtifactError) as error:
            raise FamilyError(f"a record of a family is damaged: {error}") from None
        record._check()
        return record

    def _check(self) -> None:
        count = len(self.sizes.sizes)
        rows = [*self.seconds, self.best, self.untuned, self.traces, *self.library.values()]
        if len(self.seconds) != len(self.configs) or any(len(row) != count for row in rows):
            raise FamilyError("a record of a family is damaged: its tables do not fit its sizes")
        if self.rule.symbols != self.sizes.symbols or not all(-1 <= p < len(self.configs) for p in self.rule.picks):
            raise FamilyError("a record of a family is damaged: its rule does not fit its configs")


def make_record(
    name: str, what: Mapping[str, Any], target: str, sizes: SizeList, configs: Sequence[FamilyConfig],
    timings: TimeTable, most: int, trace: Callable[[int, int], str], untuned: Sequence[float | None], trials: int = 0,
    library: Mapping[str, tuple[float | None, ...]] | None = None,
) -> FamilyRecord:  # fmt: skip
    """Choose the portfolio and make the rule. `trace` gives the tuning record of a config at a size.

    Raises FamilyError when no config works.
    """
    portfolio = choose_portfolio(timings, sizes.weights, most)
    members = portfolio.members
    return FamilyRecord(
        name=name, what=what, target=target, sizes=sizes, configs=tuple(configs[member] for member in members),
        seconds=tuple(_known(timings.seconds[member]) for member in members), best=_known(timings.best),
        untuned=tuple(untuned),
        traces=tuple(None if pick is None else trace(pick, at) for at, pick in enumerate(portfolio.picks)),
        dispatch=make_dispatch(sizes, timings, portfolio), loss=portfolio.loss, exact=portfolio.exact, trials=trials,
        library=library or {},
    )  # fmt: skip


def _times(data: Sequence[Any]) -> tuple[float | None, ...]:
    return tuple(None if time is None else float(time) for time in data)


def _known(times: Any) -> tuple[float | None, ...]:
    return tuple(float(time) if np.isfinite(time) else None for time in times)
