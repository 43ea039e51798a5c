"""Traces as values: simplified, with another decision, applied to a schedule."""

from __future__ import annotations

import pytest

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from tests.kit.compiler.schedules import workloads as w


def sampled() -> Schedule:
    sch = Schedule(w.matmul(12, 8, 4), seed=1)
    unused = sch.get_block("C")
    sch.get_loops(unused)
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.sample_categorical([1, 2], [0.5, 0.5])
    sch.split(i, sch.sample_perfect_tile(i, 2, decision=[3, 4]))
    sch.enter_postproc()
    sch.parallel(sch.get_loops(sch.get_block("C"))[0])
    return sch


def test_simplified_keeps_what_is_used() -> None:
    sch = sampled()
    short = sch.trace.simplified()
    assert len(short.steps) < len(sch.trace.steps)
    assert short.decisions == ((3, 4),)
    assert apply_trace(w.matmul(12, 8, 4), short).func.script() == sch.func.script()
    searched = sch.trace.simplified(remove_postproc=True)
    assert [s.prim for s in searched.steps] == ["get_block", "get_loops", "sample_perfect_tile", "split"]


def test_another_decision() -> None:
    trace = sampled().trace.with_decision(1, [6, 2])
    assert trace.decisions[1] == (6, 2)
    with pytest.raises(ScheduleError, match="no number 9"):
        trace.with_decision(9, 0)


def test_a_trace_is_applied_to_a_schedule_with_steps_of_its_own() -> None:
    made = sampled()
    other = Schedule(w.matmul(12, 8, 4))
    _, j, _ = other.get_loops(other.get_block("C"))
    other.unroll(j)
    made.trace.apply_to_schedule(other)
    assert len(other.get_loops(other.get_block("C"))) == 4
    assert Trace.from_json(other.trace.to_json()) == other.trace
    plain = Schedule(w.matmul(12, 8, 4))
    made.trace.apply_to_schedule(plain)
    assert plain.func.script() == made.func.script()
    steps, decisions = plain.trace.as_json()
    assert (len(steps), decisions) == (len(plain.trace.steps), [[4, 1], [5, [3, 4]]])


def test_a_sampled_value_may_be_noted() -> None:
    sch = Schedule(w.matmul(12, 8, 4))
    block = sch.get_block("C")
    sch.annotate(block, "unroll", sch.sample_categorical([16, 64], [0.5, 0.5], decision=1))
    assert sch.get(block).annotations["unroll"] == 64
    assert str(sch.trace).endswith("sch.annotate(b0, ann_key='unroll', ann_val=v0)")
    other = apply_trace(w.matmul(12, 8, 4), Trace.from_json(sch.trace.to_json()).with_decision(0, 0))
    assert other.get(other.get_block("C")).annotations["unroll"] == 16
    rerun = Schedule(w.matmul(12, 8, 4), seed=3)
    exec(str(sch.trace), {"sch": rerun})
    assert rerun.func.script() == sch.func.script()


def test_a_note_has_one_value() -> None:
    sch = Schedule(w.matmul(12, 8, 4))
    block, value = sch.get_block("C"), sch.sample_categorical([1], [1.0])
    with pytest.raises(ScheduleError, match="annotate: an annotation has one value"):
        sch.take("annotate", (block, value), ann_key="unroll", ann_val=3)
