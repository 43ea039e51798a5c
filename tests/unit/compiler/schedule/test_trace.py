"""Traces: what is recorded, replaying with other decisions, and refusing text that is no trace."""

from __future__ import annotations

import inspect
import json
import sys

import numpy as np
import pytest

from compiler.errors import ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule.analysis.tree import tree_text
from compiler.schedule.core.rv import LoopRV, parse_rv
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.state import TraceState
from compiler.schedule.core.step import Step, apply, get_primitive, primitive
from compiler.schedule.core.trace import Trace
from tests.kit.compiler.schedules import workloads as w


def tiled(seed: int | None = None, decision: list[int] | None = None) -> Schedule:
    """The matmul in tiles whose sizes are sampled."""
    s = Schedule(w.matmul(12, 16, 10), seed=seed)
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    i0, i1 = s.split(i, s.sample_perfect_tile(i, 2, 16, decision=decision))
    j0, j1 = s.split(j, [None, s.sample_categorical([2, 4, 8], [0.2, 0.3, 0.5])])
    k0, k1 = s.split(k, s.sample_tile(k, 2))
    s.reorder(i0, j0, k0, k1, i1, j1)
    return s


def test_json_is_compact_and_deterministic() -> None:
    s = Schedule(w.matmul(12, 16, 10))
    i, *_ = s.get_loops(s.get_block("C"))
    s.split(i, [None, s.sample_categorical([2, 4], [0.5, 0.5], decision=1)])
    assert s.trace.to_json() == (
        '{"format":"tunefarm.trace","version":1,"steps":['
        '["get_block",[],{"name":"C"},["b0"]],["get_loops",["b0"],{},["l0","l1","l2"]],'
        '["sample_categorical",[],{"candidates":[2,4],"probs":[0.5,0.5]},["v0"]],'
        '["split",["l0",null,"v0"],{"preserve_unit_iters":true},["l3","l4"]]],"decisions":[1]}'
    )
    assert Trace.from_json(s.trace.to_json()) == s.trace


def test_the_same_seed_draws_the_same_decisions() -> None:
    assert tiled(7).trace == tiled(7).trace
    assert len({tiled(seed).trace.decisions for seed in range(12)}) > 3


def test_replay_with_other_decisions() -> None:
    s = tiled(1)
    other = s.trace.with_decisions([(4, 3), 0, (5,)])
    again = apply_trace(w.matmul(12, 16, 10), other)
    assert tree_text(again.func.body) == "\n".join(
        "  " * depth + line
        for depth, line in enumerate(
            ["for i_0 in 4:", "for j_0 in 8:", "for k_0 in 2:", "for k_1 in 5:", "for i_1 in 3:", "for j_1 in 2:",
             "block C"]
        )
    )  # fmt: skip
    assert again.trace == other
    assert s.trace.decisions != other.decisions


def test_open_decisions_are_drawn_from_the_seed() -> None:
    func = w.matmul(12, 16, 10)
    opened = tiled(1).trace.with_decisions([None, None, None])
    first, second = apply_trace(func, opened, seed=3), apply_trace(func, opened, seed=3)
    assert None not in first.trace.decisions
    assert first.trace == second.trace
    w.check_same(first, func)


def test_drawn_tiles_cover_the_extent() -> None:
    rng_seeds = range(30)
    func = w.matmul(509, 16, 1021)
    for seed in rng_seeds:
        s = Schedule(func, seed=seed)
        i, _, k = s.get_loops(s.get_block("C"))
        outer, *inner = map(s.get, s.sample_tile(k, 3, 32))
        assert outer * np.prod(inner) >= 1021
        assert (outer - 1) * np.prod(inner) < 1021
        assert inner[-1] <= 32
        assert np.prod([s.get(v) for v in s.sample_perfect_tile(i, 2)]) == 509


def test_a_decision_that_does_not_fit_is_refused() -> None:
    trace = tiled(1).trace
    with pytest.raises(ScheduleError, match="not 2 factors of 12"):
        apply_trace(w.matmul(12, 16, 10), trace.with_decisions([(5, 3), 0, (5,)]))
    with pytest.raises(ScheduleError, match="2 decisions for 3 sampling steps"):
        trace.with_decisions([(4, 3), 0])
    with pytest.raises(ScheduleError, match="no decision"):
        trace.with_decisions([(4, 3), 0.5, (5,)])  # type: ignore[list-item]


def test_a_trace_of_another_function_is_refused() -> None:
    with pytest.raises(ScheduleError, match="there is no block 'C'"):
        apply_trace(w.row_sum(), tiled(1).trace)
    with pytest.raises(ScheduleError, match="get_loops: gives 2 results here, the step names 3"):
        apply_trace(w.chain(), tiled(1).trace)


def test_apply_is_pure() -> None:
    func = w.matmul()
    empty = TraceState.of({"main": func})
    found = apply(empty, Step("get_block", (), (("name", "C"),), (parse_rv("b0"),)))
    loops = apply(found, Step("get_loops", (parse_rv("b0"),), (), tuple(LoopRV(i) for i in range(3))))
    text = func.script()
    split = Step("split", (LoopRV(0), None, 4), (("preserve_unit_iters", True),), (LoopRV(3), LoopRV(4)))
    one, two = apply(loops, split), apply(loops, split)
    assert one.function("main").script() == two.function("main").script() != text
    assert func.script() == text
    assert empty.env == {}


_HOSTILE = {
    "not JSON": "nonsense",
    "not a schedule trace": "[]",
    "not a schedule trace:": '{"format":"other","version":1,"steps":[],"decisions":[]}',
    "version 2 is not known": '{"format":"tunefarm.trace","version":2,"steps":[],"decisions":[]}',
    "version True": '{"format":"tunefarm.trace","version":true,"steps":[],"decisions":[]}',
    "must be lists": '{"format":"tunefarm.trace","version":1,"steps":{},"decisions":[]}',
    "1 decisions for 0": '{"format":"tunefarm.trace","version":1,"steps":[],"decisions":[1]}',
}


@pytest.mark.parametrize("message", _HOSTILE)
def test_text_that_is_no_trace(message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        Trace.from_json(_HOSTILE[message])
    assert message.rstrip(":") in str(caught.value)


_BAD_STEPS: list[tuple[object, str]] = [
    ("split", "not [primitive"),
    (["split", [], {}], "not [primitive"),
    (["explode", [], {}, []], "no schedule primitive 'explode'"),
    (["__import__", [], {}, []], "no schedule primitive"),
    (["get_block", [], {"name": 3}, ["b0"]], "attribute name must be of type str"),
    (["get_block", [], {}, ["b0"]], "its attributes are name, func_name; got none"),
    (["get_block", [], {"name": "C", "more": 1}, ["b0"]], "its attributes are name, func_name; got name, more"),
    (["get_block", [], {"name": {"deep": 1}}, ["b0"]], "no attribute value"),
    (["get_block", [], {"name": "C"}, []], "0 outputs"),
    (["get_block", [], {"name": "C"}, ["l0"]], "no result such as l0"),
    (["get_block", [], {"name": "C"}, ["b0", "b0"]], "2 outputs"),
    (["get_block", [], {"name": "C"}, ["b99999999"]], "names no block"),
    (["get_block", [], {"name": "C"}, [7]], "no output"),
    (["get_loops", ["b0"], {}, []], "b0 is used before it is named"),
    (["get_loops", [], {}, []], "0 inputs"),
    (["get_loops", [3], {}, []], "input 0 must be block"),
    (["get_loops", [True], {}, []], "no input"),
    (["get_loops", [1.5], {}, []], "no input"),
    (["split", [None, 2], {"preserve_unit_iters": True}, []], "input 0 must be loop, got None"),
    (["split", ["x"], {"preserve_unit_iters": True}, []], "names no block"),
    (["fuse", [], {"preserve_unit_iters": 1}, ["l0"]], "must be of type bool"),
    (["sample_categorical", [], {"candidates": [1], "probs": [1e999]}, ["v0"]], "no attribute value"),
]


@pytest.mark.parametrize(("step", "message"), _BAD_STEPS)
def test_a_malformed_step(step: object, message: str) -> None:
    text = json.dumps({"format": "tunefarm.trace", "version": 1, "steps": [step], "decisions": []})
    with pytest.raises(ScheduleError) as caught:
        Trace.from_json(text.replace("Infinity", "1e999"))
    assert message in str(caught.value)
    assert "step 0" in str(caught.value)


def test_deep_or_huge_text_is_refused() -> None:
    with pytest.raises(ScheduleError, match="not a schedule trace"):
        Trace.from_json("[" * 100_000)
    nested = '{"format":"tunefarm.trace","version":1,"decisions":[],"steps":'
    with pytest.raises(ScheduleError, match="not JSON"):
        Trace.from_json(nested + "[" * 100_000)
    with pytest.raises(ScheduleError, match="not JSON"):
        Trace.from_json(nested.encode() + b'["\xff"]}')
    steps = [["fuse", [], {"preserve_unit_iters": True}, ["l0"]]] * 30_000
    record = {"format": "tunefarm.trace", "version": 1, "steps": steps, "decisions": []}
    with pytest.raises(ScheduleError, match="at most"):
        Trace.from_json(json.dumps(record))


def test_a_trace_that_nests_without_end_is_refused() -> None:
    """Each step splits the loop that the one before made."""
    steps: list[object] = [["get_block", [], {"name": "C"}, ["b0"]], ["get_loops", ["b0"], {}, ["l0", "l1", "l2"]]]
    for i in range(1200):
        outputs = [f"l{2 * i + 3}", f"l{2 * i + 4}"]
        steps.append(["split", [f"l{2 * i + 2 if i else 0}", None, 2], {"preserve_unit_iters": True}, outputs])
    text = json.dumps({"format": "tunefarm.trace", "version": 1, "steps": steps, "decisions": []})
    trace, usual = Trace.from_json(text), sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 250)  # each step takes longer than the one before
    try:
        with pytest.raises(ScheduleError, match="nested too deeply"):
            apply_trace(w.matmul(), trace)
    finally:
        sys.setrecursionlimit(usual)


def test_loops_without_iterations() -> None:
    s = Schedule(w.matmul(0, 3, 2))
    i, j, _ = s.get_loops(s.get_block("C"))
    s.split(s.fuse(i, j), [None, 4])
    assert w.outputs(s.func).shape == (0, 3)


def test_a_schedule_of_a_module() -> None:
    mod = IRModule({"main": w.matmul(), "other": w.chain()})
    s = Schedule(mod)
    s.parallel(s.get_loops(s.get_block("C"))[0])
    assert "parallel" in s.mod["main"].script()
    assert s.mod["other"] is mod["other"]
    assert "parallel" not in mod["main"].script()


def test_a_copy_goes_its_own_way() -> None:
    s = Schedule(w.matmul(), seed=0)
    i, j, _ = s.get_loops(s.get_block("C"))
    other = s.copy()
    other.parallel(i)
    s.split(j, [None, 4])
    assert "parallel" not in s.func.script()
    assert len(other.trace.steps) == len(s.trace.steps) == 3


def test_what_variables_stand_for() -> None:
    s = Schedule(w.matmul())
    block = s.get_block("C")
    i, _, k = s.get_loops(block)
    assert s.get(block).name_hint == "C"
    assert s.get(i).loop_var.name == "i"
    assert s.get(s.sample_categorical([3, 5], [1, 1], decision=1)) == 5
    init = s.decompose_reduction(block, k)
    assert (s.get(block).name_hint, s.get(init).name_hint) == ("C_update", "C_init")
    assert s.read_index(block, "B") == 2
    assert s.write_index(block, "C") == 0
    with pytest.raises(ScheduleError, match="'X' is not read by the block"):
        s.read_index(block, "X")
    s.split(i, [None, 2])
    with pytest.raises(ScheduleError, match="get: loop 'i' is gone"):
        s.get(i)
    with pytest.raises(ScheduleError, match="l99 is no loop of this schedule"):
        s.parallel(LoopRV(99))


def test_blocks_around_one() -> None:
    s = Schedule(w.chain())
    middle = s.get_block("C")
    assert [s.get(b).name_hint for b in s.get_producers(middle)] == ["B"]
    assert [s.get(b).name_hint for b in s.get_consumers(middle)] == ["D"]
    assert [s.get(b).name_hint for b in s.get_child_blocks(s.get_block("root"))] == ["B", "C", "D"]
    assert [s.get(b).name_hint for b in s.get_child_blocks(s.get_loops(middle)[0])] == ["C"]


def test_steps_are_read_once_for_all_decisions() -> None:
    text = tiled(7).trace.to_json()
    first, second = Trace.from_json(text), Trace.from_json(text)
    assert first.steps is second.steps
    other = Trace.from_json(first.with_decisions([None] * 3).to_json())
    assert other.steps is first.steps
    assert other.decisions == (None,) * 3


@pytest.mark.parametrize("after", ["[1]", "[1]}}", "[1]},", "{}}", "[1],[2]}", '[1],"more":2}', "[true]}", "[1,2]}"])
def test_decisions_of_known_steps_are_checked_all_the_same(after: str) -> None:
    s = Schedule(w.matmul(12, 16, 10))
    s.sample_categorical([2, 4], [0.5, 0.5], decision=1)
    text = s.trace.to_json()
    Trace.from_json(text)
    wrong = text.removesuffix("[1]}") + after
    assert wrong != text
    if after == '[1],"more":2}':  # as before: what else stands there is not read
        assert Trace.from_json(wrong) == s.trace
        return
    with pytest.raises(ScheduleError, match="trace:"):
        Trace.from_json(wrong)


def test_an_attribute_called_decisions() -> None:
    """The words that part steps from decisions may stand in a step as well."""
    step = '["get_block",[],{"name":"a","decisions":[1]}'
    text = f'{{"format":"tunefarm.trace","version":1,"steps":[{step}]'
    for wrong in (f"{text}}}", f'{text}],"decisions":[]}}', f'{text},["b0"]],"decisions":[]}}'):
        with pytest.raises(ScheduleError, match="trace:"):
            Trace.from_json(wrong)


def test_a_primitive_is_registered_once() -> None:
    def get_block(func, name):
        raise AssertionError

    before = get_primitive("get_block")
    with pytest.raises(ScheduleError, match="a schedule primitive 'get_block' is already registered"):
        primitive(attrs={"name": (str,)}, outputs="block")(get_block)
    assert get_primitive("get_block") is before
