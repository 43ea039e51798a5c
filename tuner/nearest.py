"""What to build a workload with when nobody has tuned it here: the config of the nearest workload, adapted.

The last step before a miss. A config found this way is legal on the function asked for, but nobody has measured it.
"""

from __future__ import annotations

from functools import lru_cache

from compiler.errors import TunefarmError
from compiler.schedule.trace import Trace
from compiler.script.entry import from_source
from compiler.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.printer import workload_key
from tuner.records.errors import InvalidRecord
from tuner.records.keys import workload_family
from tuner.records.matching import certainty
from tuner.records.model import BestConfig, BestLookup
from tuner.records.store import RecordStore
from tuner.transfer.adapt import adapt
from tuner.transfer.distance import Description, between, describe

MOST_DISTANT = 6.0
"""Workloads further apart than this have little in common: one axis 64 times as long, or several much longer."""
_TRIES = 3


def best_or_nearest(
    store: RecordStore,
    key: str,
    target: str,
    device_class: str | None = None,
    toolchain: str | None = None,
    *,
    function: str = "",
) -> BestLookup:
    """As `RecordStore.best`; where that is a miss, the config of the nearest workload that has one for this target and
    device class, adapted to the function with this key.

    `function` is its script, needed only for a function that the store does not have. Raises TargetError, and
    InvalidRecord when the script is none or not of this key.
    """
    given = _parsed(key, function) if function else None
    found = store.best(key, target, device_class, toolchain)
    if found.config is not None:
        return found
    if given is None:
        known = store.workload(key)
        if known is None or not known.function:
            return _with(found, "its function is not known here, so no nearby workload was looked for")
        try:
            given = _parsed(key, known.function)
        except InvalidRecord:  # written down by hand, or by a version that printed otherwise
            return _with(found, "its function, as it is on record, does not read")
    return _nearest(store, given, key, found, str(Target(target)), device_class)


def _nearest(
    store: RecordStore, func: PrimFunc, key: str, miss: BestLookup, target: str, device_class: str | None
) -> BestLookup:
    here = describe(func)
    family = workload_family(func.script())
    if here is None or not family:
        return _with(miss, "no workload is comparable with it")
    ranked: list[tuple[float, str, BestConfig, str]] = []
    for workload, config in store.near(family, target, device_class):
        there = _description(workload.key, workload.function)
        apart = None if there is None or workload.key == key else between(here, there)
        if apart is not None and apart <= MOST_DISTANT:
            ranked.append((apart, workload.key, config, workload.function))
    if not ranked:
        return _with(miss, "no workload near it has a config for this target and device class")
    for apart, _, config, function in sorted(ranked, key=lambda r: (r[0], r[1], r[2].cost))[:_TRIES]:
        adapted = _adapted(config, function, func, target)
        if adapted is not None:
            explain = (
                *miss.explain,
                f"adapted from workload {config.workload_name}, {apart:.2f} away (an axis twice as long is 1)",
                f"there it takes a {certainty(config)}; here nobody has measured it",
            )
            return BestLookup(match="nearest", config=config, explain=explain, adapted=adapted.to_json())
    return _with(miss, f"the schedule of the nearest workload, {ranked[0][2].workload_name}, does not fit it")


def _adapted(config: BestConfig, function: str, func: PrimFunc, target: str) -> Trace | None:
    try:
        return adapt(Trace.from_json(config.trace), _parsed(config.workload_key, function), func, Target(target))
    except TunefarmError:  # the config of a template, for one, is no schedule's trace
        return None


def _with(found: BestLookup, reason: str) -> BestLookup:
    return BestLookup(match=found.match, config=found.config, explain=(*found.explain, reason))


@lru_cache(maxsize=256)
def _parsed(key: str, script: str) -> PrimFunc:
    """The function of a script. Raises InvalidRecord unless its workload key is `key`."""
    try:
        func = from_source(script)
    except TunefarmError as error:
        raise InvalidRecord(f"the function of workload {key[:12]} does not read: {error.message}") from None
    if not isinstance(func, PrimFunc) or workload_key(func) != key:
        raise InvalidRecord(f"the function given is not that of workload {key[:12]}")
    return func


@lru_cache(maxsize=4096)
def _description(key: str, script: str) -> Description | None:
    """None also for a script that does not read, which is no reason not to look at the others."""
    try:
        return describe(_parsed(key, script))
    except InvalidRecord:
        return None
