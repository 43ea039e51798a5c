"""Recorded traces of spaces that are written as any schedule with sampling steps."""

from __future__ import annotations

import json

import numpy as np

from compiler.schedule.core.schedule import Schedule
from tests.kit.compiler.schedules import workloads as w
from tuner.search.base import Candidate
from tuner.search.recognise import recogniser
from tuner.space.traced import traced


def space():
    """A tile, a compute location's kin, and steps that follow from what was drawn."""
    func = w.matmul(16, 16, 16)
    sch = Schedule(func, seed=0)
    block = sch.get_block("C")
    i, _j, k = sch.get_loops(block)
    sch.split(i, sch.sample_perfect_tile(i, 3, 16))
    unroll = sch.sample_categorical([0, 4, 16], [0.3, 0.3, 0.4])
    sch.annotate(k, "unroll", unroll)

    def finish(schedule: Schedule) -> bool:
        schedule.parallel(schedule.get_loops(schedule.get_block("C"))[0])
        return True

    return traced("space", func, sch.trace, finish)


def test_every_point_is_recognised_with_its_tuples():
    sketch = space()
    recognise = recogniser([sketch])
    rng = np.random.default_rng(0)
    for _ in range(20):
        point = sketch.random(rng)
        made = Candidate(sketch, point)
        again = recognise(made.digest, made.trace_json)
        assert again == made
        assert (again.digest, again.trace_json) == (made.digest, made.trace_json)


def test_what_is_no_point_is_not():
    sketch = space()
    recognise = recogniser([sketch])
    record = json.loads(Candidate(sketch, sketch.random(np.random.default_rng(1))).trace_json)
    assert recognise("d", json.dumps(record)) is not None
    fewer = {**record, "decisions": record["decisions"][:1]}
    other = {**record, "decisions": [[5, 5, 5] if isinstance(d, list) else d for d in record["decisions"]]}
    foreign = {**record, "steps": record["steps"][1:]}
    for changed in (fewer, other, foreign, {**record, "steps": 3}, []):
        assert recognise("d", json.dumps(changed)) is None
    assert recognise("d", "not json") is None
