"""Effects kept from one trace to the next: what comes out is the same, and what was done is not done again."""

from __future__ import annotations

import pytest

from compiler.ir.structural import structural_equal
from compiler.schedule.core import step as steps
from compiler.schedule.core.effects import Effects, remembered
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.step import Step
from compiler.schedule.core.trace import Trace
from tests.kit.compiler.schedules import workloads as w

FUNC = w.matmul(12, 16, 10)


def sketch() -> str:
    """A trace of six steps that cost something, of which the last two depend on a decision."""
    s = Schedule(FUNC)
    block = s.get_block("C")
    i, j, _ = s.get_loops(block)
    s.vectorize(s.split(j, [None, 4])[1])
    _, inner = s.split(i, [None, s.sample_categorical([2, 3, 4, 6], [0.25] * 4, decision=0)])
    s.unroll(inner)
    return s.trace.to_json()


def candidate(decision: int) -> Trace:
    return Trace.from_json(sketch().replace('"decisions":[0]', f'"decisions":[{decision}]'))


def test_what_is_the_same_at_the_start_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def keep(self: Effects, func: object, step: Step, *rest: object) -> None:
        done.append(step.prim)
        kept(self, func, step, *rest)  # type: ignore[arg-type]

    kept = Effects.keep
    monkeypatch.setattr(Effects, "keep", keep)
    effects = Effects()
    made = [apply_trace(FUNC, candidate(d), effects=effects).func for d in (0, 1, 0)]
    start = ["get_block", "get_loops", "split", "vectorize"]
    assert done == [*start, "split", "unroll", "split", "unroll"]
    assert made[2] is made[0]
    for func, decision in zip(made, (0, 1)):
        assert structural_equal(func, apply_trace(FUNC, candidate(decision)).func)


def test_equal_steps_are_not_the_same_step() -> None:
    """1 equals True, and a loop's note may be either."""
    effects = Effects()
    for value in ("1", "true", "1.0"):
        s = Schedule(FUNC)
        s.annotate(s.get_loops(s.get_block("C"))[0], "note", 1)
        text = s.trace.to_json().replace('"ann_val":1', f'"ann_val":{value}')
        func = apply_trace(FUNC, Trace.from_json(text), effects=effects).func
        assert repr(func.body.block.body.annotations["note"]).lower() == value  # type: ignore[attr-defined]


def test_no_more_are_kept_than_asked_for() -> None:
    effects = Effects(most=3)
    for decision in range(4):
        apply_trace(FUNC, candidate(decision), effects=effects)
        assert len(effects) == 3


def test_a_step_that_fails_is_tried_again() -> None:
    effects = Effects()
    wrong = Step("get_block", (), (("name", "none such"),))
    for _ in range(2):
        with pytest.raises(steps.ScheduleError, match="no block 'none such'"):
            apply_trace(FUNC, Trace((wrong,)), effects=effects)
    assert len(effects) == 0


def test_schedules_that_begin_alike_share_what_they_began_with() -> None:
    def begun(name: str) -> tuple[object, object]:
        s = Schedule(FUNC)
        block = s.get_block("C")
        if name:  # what things are called in a trace does not matter
            s.get_block("C")
        loops = s.get_loops(block)
        s.split(loops[1], [None, 4])
        begins = s.func
        s.parallel(loops[0]) if name else s.unroll(loops[0])
        return begins, s.func

    with remembered() as effects:
        (first, one), (second, other) = begun(""), begun("other")
        assert second is first
        assert not structural_equal(one, other)  # type: ignore[arg-type]
        with remembered() as same:
            assert same is effects
    assert begun("")[0] is not first


def test_the_variable_of_a_loop_is_known_without_a_search() -> None:
    s = Schedule(FUNC)
    outer, inner = s.split(s.get_loops(s.get_block("C"))[1], [None, 4])
    assert [s.loop_var(rv) for rv in (outer, inner)] == [s.get(rv).loop_var for rv in (outer, inner)]
