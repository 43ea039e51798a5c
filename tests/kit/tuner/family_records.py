"""Records of families that nobody measured, for tests."""

from __future__ import annotations

import numpy as np

from tests.kit.tuner.sketch_points import random_point
from tuner.devices.supplies import local_target
from tuner.families.configs import FamilyConfig, realised
from tuner.families.family import Family, FamilySpec, family_key
from tuner.families.portfolio import TimeTable
from tuner.families.record import FamilyRecord, make_record
from tuner.families.sizes import parse_shapes
from tuner.records.parts.families import NewFamily
from tuner.space.generate import generate


def made_up(text: str, shapes: list[str], most: int = 2) -> FamilyRecord:
    """A record of a family that nobody measured: the first configs of some sizes' spaces, with times by hand."""
    return made_up_for(Family(FamilySpec.parse(text), parse_shapes(shapes)), most)


def made_up_for(family: Family, most: int = 2) -> FamilyRecord:
    """The same for any function."""
    tasks = family.tasks(local_target())
    spaces = [generate(task.func, task.target) for task in tasks]
    sketches = [spaces[0][0], spaces[-1][0]]
    configs = []
    for sketch in sketches:
        point = next(p for p in (tuple(0 for _ in sketch.decisions), sketch.random(np.random.default_rng(0))) if p)
        if not sketch.is_allowed(point):
            found = random_point(sketch, np.random.default_rng(0))
            point = found
        configs.append(FamilyConfig(sketch.name, tuple(sketch.values(point).items())))
    cells, traces = {}, {}
    for number, config in enumerate(configs):
        for at, space in enumerate(spaces):
            candidate = realised(config, space)
            if candidate is not None:
                cells[number, at] = 1.0 + abs(at - number * (len(spaces) - 1))
                traces[number, at] = candidate.trace_json
    table = TimeTable.of(cells, len(configs), len(spaces))
    what, target = family.spec.to_json(), str(tasks[0].target)
    untuned = [9.0] * len(spaces)
    return make_record(
        str(family.spec), what, target, family.sizes, configs, table, most, lambda c, at: traces[c, at], untuned
    )


def stored(record: FamilyRecord, device_class: str = "made-up") -> NewFamily:
    """The record as the store takes it."""
    return NewFamily(
        key=family_key(record.what),
        name=record.name,
        target=record.target,
        device_class=device_class,
        run_id=None,
        digest=record.digest,
        loss=record.loss,
        record=record.to_json(),
    )
