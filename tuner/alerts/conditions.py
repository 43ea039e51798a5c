"""Which rules hold now, and which have begun to hold or stopped since the last check. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import assert_never

from tuner.alerts.rules import Rule, When
from tuner.number_text import duration


@dataclass(frozen=True)
class DeviceSeen:
    """A device as the tracker tells of it: last heard `seen_s` seconds ago."""

    name: str
    state: str
    seen_s: float


@dataclass(frozen=True)
class Slower:
    """A kernel on a device that takes `factor` times as long as usual, confirmed by measuring again."""

    kernel: str
    device: str
    factor: float


@dataclass(frozen=True)
class AlertFacts:
    """The facts of one check.
    `waits`: seconds that the first request for each expression has waited; `free`: the share of each path's disk
    that is free. None if it could not be checked; its alerts then go on."""

    devices: tuple[DeviceSeen, ...] | None = ()
    slower: tuple[Slower, ...] | None = ()
    waits: Mapping[str, float] | None = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Alert:
    """A rule that holds for a subject (a device, a kernel, an expression, a path), in words.
    `over`: it held until now."""

    rule: str
    when: When
    subject: str
    text: str
    over: bool = False


def holding(rules: Iterable[Rule], facts: AlertFacts, before: Iterable[Alert] = ()) -> dict[tuple[str, str], Alert]:
    """The alerts that hold, by rule and subject.
    Those of `before` whose kind could not be looked at still do."""
    found: dict[tuple[str, str], Alert] = {}
    unseen = _unknown(facts)
    found |= {(alert.rule, alert.subject): alert for alert in before if alert.when in unseen}
    for rule in rules:
        for subject, text in _look(rule, facts):
            found[rule.name, subject] = Alert(rule.name, rule.when, subject, text)
    return found


def news(before: Mapping[tuple[str, str], Alert], now: Mapping[tuple[str, str], Alert]) -> list[Alert]:
    """Alerts that have begun, then those that are over."""
    begun = [alert for key, alert in now.items() if key not in before]
    over = [alert for key, alert in before.items() if key not in now]
    return begun + [Alert(a.rule, a.when, a.subject, a.text, over=True) for a in over]


def _unknown(facts: AlertFacts) -> set[When]:
    parts = ((When.BOX_GONE, facts.devices), (When.KERNEL_SLOWER, facts.slower), (When.QUEUE_WAIT, facts.waits))
    return {when for when, part in parts if part is None}


def _look(rule: Rule, facts: AlertFacts) -> list[tuple[str, str]]:
    match rule.when:
        case When.BOX_GONE:
            return [
                (d.name, f"{d.name} was last heard {duration(d.seen_s)} ago ({d.state})")
                for d in facts.devices or ()
                if d.seen_s >= rule.for_s and fnmatchcase(d.name, rule.match)
            ]
        case When.KERNEL_SLOWER:
            return [
                (f"{s.kernel} on {s.device}", f"{s.kernel} on {s.device} takes {s.factor:.2f} times as long as usual")
                for s in facts.slower or ()
                if s.factor >= rule.factor and fnmatchcase(s.kernel, rule.match)
            ]
        case When.QUEUE_WAIT:
            return [
                (expr, f"a request for {expr!r} has waited {duration(wait)}")
                for expr, wait in (facts.waits or {}).items()
                if wait >= rule.longer_than_s and fnmatchcase(expr, rule.match)
            ]
        case When.DISK_FULL:
            free = facts.free.get(rule.path)
            full = free is not None and free < rule.free_below
            return [(rule.path, f"{100 * (free or 0.0):.1f} % of the disk of {rule.path} is free")] if full else []
        case _:
            assert_never(rule.when)
