"""Training data of a model: recorded candidates of any space as features and costs.

A recorded trace says what its sampling steps could have decided, so it is a point of a sketch made from it. The
rules of spaces may have changed since.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.errors import TunefarmError
from compiler.schedule.core.trace import Trace
from compiler.script.entry import from_source
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.model.errors import FeatureError
from tuner.model.features import SketchFeatures
from tuner.model.machine import target_family
from tuner.model.training import Group
from tuner.records.store import RecordStore
from tuner.space.sketch import Decision, Sketch
from tuner.workloads import WorkloadSpec

_FEW = 2  # candidates of a workload that are no use to learn from


@dataclass(frozen=True)
class Dataset:
    """`left_out` counts candidates that the features do not describe."""

    groups: tuple[Group, ...]
    left_out: int

    @property
    def candidates(self) -> int:
        return sum(len(group.costs) for group in self.groups)


def from_store(store: RecordStore, family: str) -> Dataset:
    """Everything measured on targets of a family."""
    groups, left_out = [], 0
    for key in store.cost_models.tuning_keys():
        target = Target(key.target)
        if target_family(target) != family:
            continue
        costs = store.cost_models.measured_traces(key.id)
        func = function_of(key.spec, key.function)
        group = None if func is None else group_of(key.workload_name, func, target, costs)
        left_out += len(costs) - (0 if group is None else len(group.costs))
        if group is not None and len(group.costs) >= _FEW:
            groups.append(group)
    return Dataset(tuple(groups), left_out)


def families(store: RecordStore) -> tuple[str, ...]:
    """The target families that something was measured on."""
    return tuple(sorted({target_family(Target(key.target)) for key in store.cost_models.tuning_keys()}))


def function_of(spec: Mapping[str, Any] | None, script: str) -> n.PrimFunc | None:
    """A recorded workload's function, None where its record cannot be read as one."""
    try:
        read = WorkloadSpec.from_json(spec).prim_func() if spec is not None else from_source(script)
    except TunefarmError:
        return None
    return read if isinstance(read, n.PrimFunc) else None


def group_of(workload: str, func: n.PrimFunc, target: Target, costs: Mapping[str, float]) -> Group | None:
    """The candidates of a function whose traces and costs are given, None when none can be described."""
    matrices, found = [], []
    for sketch, points, times in _sketches(costs):
        try:
            matrices.append(SketchFeatures.of(sketch, func, target, points[0]).matrix(points))
        except FeatureError:
            continue
        found += times
    return Group(workload, np.concatenate(matrices), np.array(found), target.num_cores or 1) if found else None


def _sketches(costs: Mapping[str, float]) -> Iterator[tuple[Sketch, list[tuple[int, ...]], list[float]]]:
    """The sketches that traces are points of, with the points and costs of each.
    Reading a trace's steps takes long, so it is done once for all that differ only in their decisions."""
    found: defaultdict[str, list[tuple[tuple[int, ...], float]]] = defaultdict(list)
    for text, cost in costs.items():
        steps, decisions = _parted(text)
        if all(isinstance(d, int) for d in decisions):
            found[steps].append((tuple(decisions), cost))
    for number, (steps, points) in enumerate(found.items()):
        example = json.loads(steps) | {"decisions": points[0][0]}
        try:
            sketch = _sketch(f"recorded {number}", Trace.from_json(json.dumps(example)))
        except TunefarmError:  # another tuner's record
            continue
        if sketch is not None:
            yield sketch, [point for point, _ in points], [cost for _, cost in points]


def _parted(text: str) -> tuple[str, list[Any]]:
    """A trace's text without its decisions, and those."""
    record = json.loads(text)
    decisions = record.pop("decisions", None) if isinstance(record, dict) else None
    return json.dumps(record), decisions if isinstance(decisions, list) else [None]


def _sketch(name: str, trace: Trace) -> Sketch | None:
    if any(step.prim != "sample_categorical" for step in trace.sampling_steps):
        return None
    domains = [tuple(dict(step.attrs)["candidates"]) for step in trace.sampling_steps]
    decisions = tuple(Decision(f"decision {i}", values) for i, values in enumerate(domains))
    return Sketch(name, trace, decisions, lambda values: True, lambda values: 0.0)
