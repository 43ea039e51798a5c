"""Which of a workload's configs may be given here, and why that one. Pure.

From best to worst: a config of the requested target and device class, a *compatible* config, none. A compatible
config's code runs here, and its device class is this one or one declared to serve it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from compiler.runtime.measure.statistics import Interval
from compiler.target.target import Target
from tuner.goals import Goal
from tuner.number_text import amount
from tuner.records.lookup.best import Verdict, compare
from tuner.records.model import Match
from tuner.records.runs.catalog import parse_target


class Placed(Protocol):
    """A config for a target and a device class."""

    @property
    def target(self) -> str: ...
    @property
    def device_class(self) -> str: ...


class Offer(Placed, Protocol):
    """A config, as far as choosing goes: a `BestConfig` or a release's entry."""

    @property
    def workload_name(self) -> str: ...
    @property
    def toolchain(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def goal(self) -> Goal: ...
    @property
    def bounds(self) -> Interval: ...
    @property
    def sample_count(self) -> int: ...


C = TypeVar("C", bound=Offer)

_NAMES = {
    Goal.TIME: {Verdict.FASTER: "faster", Verdict.SLOWER: "slower"},
    Goal.ENERGY: {Verdict.FASTER: "more frugal", Verdict.SLOWER: "less frugal"},
}


@dataclass(frozen=True, slots=True)
class Choice(Generic[C]):
    """`config` is None exactly for a miss.
    `explain` has a sentence for each thing that matched or did not."""

    match: Match
    config: C | None
    explain: tuple[str, ...]


def choose(
    offers: Sequence[C], target: str, device_class: str | None, toolchain: str | None, served: Set[str]
) -> Choice[C]:
    """Choose what to give on `target` and `device_class`.
    All `offers` are for one workload, in order of preference. `served`: the classes whose configs that class may be
    given."""
    wanted = parse_target(target)
    here = [o for o in offers if o.target == str(wanted) and device_class in (None, o.device_class)]
    if here:
        return same_target(here, device_class, toolchain)
    return other_place(offers, wanted, device_class, served)


def same_target(found: Sequence[C], device_class: str | None, toolchain: str | None) -> Choice[C]:
    """Choose among `found`, the preferred first.
    All have the requested workload and target, and the device class if one was requested."""
    chosen = next((config for config in found if config.toolchain == toolchain), found[0])
    explain = [f"workload {chosen.workload_name} and target {chosen.target!r} match"]
    exact = True
    classes = sorted({config.device_class for config in found})
    if device_class is not None:
        explain.append(f"device class {device_class} matches")
    elif len(classes) == 1:
        explain.append(f"no device class was asked for; all records are of {classes[0]}")
    else:
        exact = False
        explain.append(
            f"no device class was asked for and there are records of {', '.join(classes)}: this is the newest, "
            f"of {chosen.device_class}; ask for a device class to choose"
        )
    if toolchain is not None and chosen.toolchain != toolchain:
        exact = False
        explain.append(f"measured with {chosen.toolchain}, not with {toolchain}")
    elif toolchain is not None:
        explain.append(f"toolchain {toolchain} matches")
    explain.append(certainty(chosen))
    explain += [_against(chosen, c) for c in found if c is not chosen and c.device_class == chosen.device_class]
    return Choice("exact" if exact else "compatible", chosen, tuple(explain))


def certainty(config: Offer) -> str:
    """How sure the config's time is, or its energy."""
    count, bounds, unit = config.sample_count, config.bounds, config.goal.unit
    return (
        f"median {amount(bounds.median, unit)} of {count} sample{'s' if count != 1 else ''} on {config.device}, "
        f"95 % interval {amount(bounds.low, unit)} to {amount(bounds.high, unit)}"
    )


def verdict(chosen: Offer, other: Offer) -> Verdict:
    """How `other` stands to `chosen`: intervals that overlap are a tie."""
    return compare(chosen.bounds, other.bounds)


def _against(chosen: Offer, other: Offer) -> str:
    """The same kernel with another toolchain."""
    match verdict(chosen, other):
        case Verdict.TIE:
            return f"a tie with the config of {other.toolchain}: the 95 % intervals overlap"
        case found:
            median = amount(other.bounds.median, other.goal.unit)
            return f"the config of {other.toolchain} is {_NAMES[other.goal][found]}: median {median}"


# ------------------------------------------------------------------------------- anywhere else


def other_place(offers: Sequence[C], wanted: Target, device_class: str | None, served: Set[str]) -> Choice[C]:
    """The nearest of `offers` (at least one) that may be given, none of which is for exactly this place."""
    refused: list[str] = []
    for config in sorted(offers, key=lambda c: _distance(c, wanted, device_class)):
        reasons = obstacles(config, wanted, device_class, served)
        if not reasons:
            explain = (*_concessions(config, wanted, device_class), certainty(config))
            return Choice("compatible", config, explain)
        refused.append(f"{config.target!r} on {config.device_class}: {'; '.join(reasons)}")
    on = f" on device class {device_class}" if device_class else ""
    there_is = [f"there is one for {line}" for line in dict.fromkeys(refused)]
    name = offers[0].workload_name
    return Choice("miss", None, (f"workload {name} has no config for target {str(wanted)!r}{on}", *there_is[:10]))


def obstacles(config: Placed, wanted: Target, device_class: str | None, served: Set[str]) -> list[str]:
    """Why `config` must not be given; empty when it may."""
    reasons = []
    has = parse_target(config.target)
    if has.kind != wanted.kind:
        reasons.append(f"its target is of kind {has.kind}")
    elif has.architecture != wanted.architecture:
        reasons.append(f"it is for {has.architecture}")
    elif missing := sorted(has.features - wanted.features):
        reasons.append(f"it needs {', '.join(missing)}")
    if device_class is None and config.target != str(wanted):
        reasons.append("no device class was asked for, so only the exact target will do")
    elif device_class is not None and config.device_class != device_class and config.device_class not in served:
        reasons.append(f"{device_class} is not declared to take configs of {config.device_class}")
    return reasons


def _distance(config: Offer, wanted: Target, device_class: str | None) -> tuple[bool, bool, int]:
    """Sort the nearest first: the same device class, then the same target, then fewest unused features."""
    has = parse_target(config.target)
    unused = len(wanted.features - has.features)
    return config.device_class != device_class, config.target != str(wanted), unused


def _concessions(config: Offer, wanted: Target, device_class: str | None) -> list[str]:
    explain = [f"workload {config.workload_name} matches"]
    if config.target != str(wanted):
        explain.append(f"no config for target {str(wanted)!r}; its features include those of {config.target!r}")
    else:
        explain.append(f"target {config.target!r} matches")
    if config.device_class == device_class:
        explain.append(f"device class {device_class} matches")
    else:
        explain.append(
            f"measured on {config.device_class}, whose configs {device_class} is declared to take; "
            "its times are not this device's"
        )
    return explain
