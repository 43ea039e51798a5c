"""A config for a workload that was not tuned here: that of the nearest workload, adapted.

The last step before a miss. A config found this way is legal on the function asked for, but nobody has measured it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from compiler.errors import TunefarmError
from compiler.schedule.core.trace import Trace
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tuner.goals import Goal
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.lookup.keys import workload_family
from tuner.records.lookup.matching import certainty
from tuner.records.lookup.near import NearConfig
from tuner.records.model import BestConfig, BestLookup
from tuner.records.store import RecordStore
from tuner.transfer.adapt import adapt
from tuner.transfer.distance import Description, Shapes, describe

MOST_DISTANT = 6.0
"""Workloads further apart than this have little in common: one axis 64 times as long, or several much longer."""
_TRIES = 3
_MOST_PLACES = 64


@dataclass(frozen=True, slots=True)
class Question:
    """A workload to look up.
    `function` is its script, needed only for a function that the store does not have."""

    workload: str
    function: str = ""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Where a config is to be for, and what it is chosen by."""

    target: str
    device_class: str | None
    goal: Goal


def best_or_nearest(
    store: RecordStore, key: str, target: str, device_class: str | None = None, toolchain: str | None = None, *,
    function: str = "", goal: Goal = Goal.TIME,
) -> BestLookup:  # fmt: skip
    """`best_or_nearest_of` one workload."""
    [found] = best_or_nearest_of(store, [Question(key, function)], target, device_class, toolchain, goal)
    return found


def best_or_nearest_of(
    store: RecordStore, questions: Sequence[Question], target: str, device_class: str | None = None,
    toolchain: str | None = None, goal: Goal = Goal.TIME,
) -> list[BestLookup]:  # fmt: skip
    """Look up best configs (`BestRecords.look_up_all`), in the questions' order.

    A miss is answered with the config of the nearest workload that has one for this target and device class, adapted
    to the function with this key.

    Raises TargetError, and InvalidRecord when a script is none or not of its key, or there are too many questions.
    """
    for asked in questions:
        if asked.function:
            _parsed(asked.workload, asked.function)
    best = store.best.look_up_all({asked.workload for asked in questions}, target, device_class, toolchain, goal)
    unknown = [q.workload for q in questions if not q.function and best[q.workload].config is None]
    recorded = store.workloads.functions(unknown) if unknown else {}
    place = _Asked(str(Target(target)), device_class, goal)
    return [
        found if found.config is not None else _instead(store, asked, recorded.get(asked.workload, ""), found, place)
        for asked in questions
        for found in (best[asked.workload],)
    ]


def nearby(
    store: RecordStore, func: PrimFunc, target: str, device_class: str | None = None
) -> list[tuple[float, NearConfig]]:
    """The configs of the few workloads nearest to `func`, nearest first, each with how far away it is."""
    here, family = describe(func), workload_family(func.script())
    if here is None or not family:
        return []
    seen = _REMEMBERED.setdefault(store, Nearby())
    return seen.ranked(store, here, workload_key(func), family, str(Target(target)), device_class)


def _instead(store: RecordStore, asked: Question, recorded: str, miss: BestLookup, place: _Asked) -> BestLookup:
    """Return the answer to a miss; `recorded` is the script that the store has."""
    function = asked.function or recorded
    if not function:
        return _with(miss, "its function is not known here, so no nearby workload was looked for")
    try:
        func = _parsed(asked.workload, function)
    except InvalidRecord:  # written down by hand, or by a version that printed otherwise
        return _with(miss, "its function, as it is on record, does not read")
    return _nearest(store, func, asked.workload, workload_family(function), miss, place)


def _nearest(store: RecordStore, func: PrimFunc, key: str, family: str, miss: BestLookup, place: _Asked) -> BestLookup:
    here = describe(func)
    if here is None or not family:
        return _with(miss, "no workload is comparable with it")
    seen = _REMEMBERED.setdefault(store, Nearby())
    ranked = seen.ranked(store, here, key, family, place.target, place.device_class)
    for apart, near in ranked:
        adapted = _adapted(store, near, func, place)
        if adapted is not None:
            config, trace = adapted
            explain = (
                *miss.explain,
                f"adapted from workload {near.workload_name}, {apart:.2f} away (an axis twice as long is 1)",
                f"there it takes a {certainty(config)}; here nobody has measured it",
            )
            return BestLookup(match="nearest", config=config, explain=explain, adapted=trace)
    if not ranked:
        return _with(miss, "no workload near it has a config for this target and device class")
    return _with(miss, f"the schedule of the nearest workload, {ranked[0][1].workload_name}, does not fit it")


def _adapted(store: RecordStore, near: NearConfig, func: PrimFunc, place: _Asked) -> tuple[BestConfig, str] | None:
    """The present config, and its trace made to fit; None if it does not fit, or is gone."""
    try:
        config = store.best.get(near.id, place.goal)
        source = _parsed(near.workload_key, store.workloads.functions([near.workload_key])[near.workload_key])
    except (RecordNotFound, InvalidRecord, KeyError):
        return None
    trace = _fitted(config.trace, source, func, place.target)
    return None if trace is None else (config, trace)


@lru_cache(maxsize=256)
def _fitted(trace: str, source: PrimFunc, func: PrimFunc, target: str) -> str | None:
    try:
        made = adapt(Trace.from_json(trace), source, func, Target(target))
    except TunefarmError:  # the config of a template, for one, is no schedule's trace
        return None
    return None if made is None else made.to_json()


@dataclass(frozen=True)
class _Group:
    """Configs of comparable workloads, by key and cost, and the shapes of those workloads."""

    configs: tuple[NearConfig, ...]
    shapes: Shapes


@dataclass(frozen=True)
class _Place:
    """The offers of a family on a target and device class: its groups, by `Description.family`."""

    version: int
    groups: Mapping[str, _Group]


class Nearby:
    """Remembers of one store what looking for near workloads takes.
    These are the shapes of all that were ever looked at, and for each place asked for which have configs, until one
    changes. Usable in any thread."""

    def __init__(self) -> None:
        self._described: dict[str, Description | None] = {}
        self._places: dict[tuple[str, str, str | None], _Place] = {}

    def ranked(
        self, store: RecordStore, here: Description, key: str, family: str, target: str, device_class: str | None
    ) -> list[tuple[float, NearConfig]]:
        """The configs of the nearest workloads but `key` itself, nearest first, each with how far away it is."""
        group = self._place(store, family, target, device_class).groups.get(here.family)
        if group is None:
            return []
        apart = group.shapes.distances(here)
        found: list[tuple[float, NearConfig]] = []
        for index in np.argsort(apart, kind="stable"):
            away, config = float(apart[index]), group.configs[index]
            if away > MOST_DISTANT or len(found) == _TRIES:
                break
            if config.workload_key != key:
                found.append((away, config))
        return found

    def _place(self, store: RecordStore, family: str, target: str, device_class: str | None) -> _Place:
        asked = (family, target, device_class)
        known = self._places.get(asked)
        found = store.best.near_configs(family, target, device_class, None if known is None else known.version)
        if found is None:
            assert known is not None
            return known
        if len(self._places) >= _MOST_PLACES:
            self._places.clear()
        place = self._places[asked] = _Place(found.version, self._grouped(store, found.configs))
        return place

    def _grouped(self, store: RecordStore, configs: Sequence[NearConfig]) -> dict[str, _Group]:
        if unknown := {config.workload_key for config in configs} - self._described.keys():
            functions = store.workloads.functions(unknown)
            self._described |= {key: _description(key, functions.get(key, "")) for key in unknown}
        members: dict[str, list[tuple[NearConfig, Description]]] = defaultdict(list)
        for config in sorted(configs, key=lambda c: (c.workload_key, c.cost)):
            described = self._described[config.workload_key]
            if described is not None:
                members[described.family].append((config, described))
        return {
            family: _Group(tuple(c for c, _ in group), Shapes.of([d for _, d in group]))
            for family, group in members.items()
        }


_REMEMBERED: WeakKeyDictionary[RecordStore, Nearby] = WeakKeyDictionary()


def _with(found: BestLookup, reason: str) -> BestLookup:
    return BestLookup(match=found.match, config=found.config, explain=(*found.explain, reason))


@lru_cache(maxsize=256)
def _parsed(key: str, script: str) -> PrimFunc:
    """`_read`, remembered."""
    return _read(key, script)


def _read(key: str, script: str) -> PrimFunc:
    """The function of a script. Raises InvalidRecord unless its workload key is `key`."""
    try:
        func = from_source(script)
    except TunefarmError as error:
        raise InvalidRecord(f"the function of workload {key[:12]} does not read: {error.message}") from None
    if not isinstance(func, PrimFunc) or workload_key(func) != key:
        raise InvalidRecord(f"the function given is not that of workload {key[:12]}")
    return func


def _description(key: str, script: str) -> Description | None:
    """Describe a script. None also for one that cannot be read, which must not stop the others."""
    try:
        return describe(_read(key, script))
    except InvalidRecord:
        return None
