"""The configs that a model is built with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.artifact import PREPACKED
from compiler.runtime.measure.report import Ratio, Report
from tunefarm.client import BestReply
from tuner.goals import Goal
from tuner.kernels.model import ModelKernel
from tuner.records.farm.model_farm import ReleaseEntry
from tuner.records.lookup.matching import Choice
from tuner.records.model import BestConfig, BestLookup
from tuner.records.model_store.facts import KernelShare
from tuner.records.store import RecordStore
from tuner.transfer.nearest import Question, best_or_nearest_of

HOW = {"exact": "hit", "compatible": "near", "nearest": "near", "miss": "untuned"}
"""Kinds of matches in reports of builds."""


def how(reply: BestReply) -> str:
    """Return what a kernel was built with, in a word or two."""
    return "as written" if reply.as_written else HOW[reply.match]


def stored_configs(
    store: RecordStore, kernels: Sequence[ModelKernel], target: str, device_class: str | None, release: str = "",
    goal: Goal = Goal.TIME,
) -> dict[str, BestReply]:  # fmt: skip
    """The store's configs of kernels by workload key: the best there are by `goal`, or those of a release.

    Raises RecordNotFound for a release that is not there, InvalidRecord for one that was not approved.
    """
    keys = [kernel.key for kernel in kernels]
    if release:
        return {key: _reply(store.releases.look_up(release, key, target, device_class)) for key in keys}
    questions = [Question(key, kernel.func.script()) for key, kernel in zip(keys, kernels, strict=True)]
    found = best_or_nearest_of(store, questions, target, device_class, goal=goal)
    return dict(zip(keys, map(_reply, found), strict=True))


def _reply(found: BestLookup | Choice[ReleaseEntry]) -> BestReply:
    config, near = found.config, found.match == "nearest"
    adapted = found.adapted if isinstance(found, BestLookup) else None
    return BestReply(
        match=found.match,
        explain=tuple(found.explain),
        trace=None if config is None else adapted or config.trace,
        cost_s=None if config is None or near else config.cost,
        device_class=None if config is None else config.device_class,
        digest=None if config is None or near else config.digest,
        as_written=isinstance(config, BestConfig) and not near and config.as_written,
        joules=config.joules if isinstance(config, BestConfig) and not near else None,
    )


def kernel_of(call: Mapping[str, Any]) -> str:
    """Return the name of the kernel that a profile's call is of.
    Its weights may be packed ahead of time."""
    return str(call["Name"]).removesuffix(PREPACKED)


def shares_of(
    report: Report, kernels: Sequence[ModelKernel], known: Mapping[str, BestReply]
) -> tuple[KernelShare, ...]:
    """The kernels of a profiled run, those that take longest first."""
    by_name = {name: kernel for kernel in kernels for name in kernel.names}
    calls: dict[str, int] = {}
    seconds: dict[str, float] = {}
    reached: dict[str, float] = {}
    for call in report.calls:
        name = kernel_of(call)
        took = float(getattr(call["Duration (us)"], "microseconds", 0.0)) * 1e-6
        calls[name] = calls.get(name, 0) + 1
        seconds[name] = seconds.get(name, 0.0) + took
        share = call.get("Of roofline")
        if isinstance(share, Ratio):
            reached[name] = reached.get(name, 0.0) + share.ratio * took
    found = []
    for name in sorted(seconds, key=lambda name: -seconds[name]):
        kernel = by_name.get(name)
        reply = known.get(kernel.key) if kernel else None
        found.append(
            KernelShare(
                name=name,
                calls=calls[name],
                seconds=seconds[name],
                workload=kernel.key if kernel else None,
                config=how(reply) if reply else "",
                roofline=reached[name] / seconds[name] if seconds[name] and name in reached else None,
            )
        )
    return tuple(found)


def tuned_share(shares: Sequence[KernelShare], known: Mapping[str, BestReply]) -> float | None:
    """Return the share of the kernels' time that kernels with configs of their own take.
    None without a profile."""
    whole = sum(share.seconds for share in shares)
    if not whole:
        return None
    tuned = (s.seconds for s in shares if s.workload and (reply := known.get(s.workload)) and reply.tuned)
    return min(1.0, sum(tuned) / whole)
