"""Schedules as programs for Apache TVM know them: traces of instructions, and places of statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import ReplayedLater, Schedule, UnknownVariableError
from compiler.faces.tir_schedule.state import BlockDependenceInfo, DepKind, ScheduleState
from compiler.faces.tir_schedule.trace import Trace
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.visit import replace, walk
from compiler.schedule.core import schedule as core_schedule
from compiler.schedule.core import trace as core
from compiler.schedule.core.field_maps import map_of_saved, python_of_map, saved_map
from compiler.schedule.core.field_steps import FieldTraceError, Instruction, InstructionKind
from compiler.schedule.core.rv import BlockRV, LoopRV
from compiler.tir import nodes as n
from tests.kit.compiler.schedules import workloads as w


def instruction(name: str, inputs: Sequence[Any] = (), attrs: Sequence[Any] = (), outputs: Any = ()) -> Instruction:
    return Instruction(InstructionKind.get(name), inputs, attrs, outputs)


def test_a_trace_written_by_hand() -> None:
    block, loops = BlockRV(), [LoopRV(), LoopRV()]
    found = instruction("GetBlock", [], ["B", "main"], [block])
    inline = instruction("ComputeInline", [block])
    trace = Trace([found, instruction("GetLoops", [block], [], loops), inline], {})
    text = (
        "# from tvm import tir\ndef apply_trace(sch: tir.Schedule) -> None:\n"
        '  b0 = sch.get_block(name="B", func_name="main")\n'
        "  l1, l2 = sch.get_loops(block=b0)\n  sch.compute_inline(block=b0)"
    )
    assert str(trace) == text
    last = trace.pop()
    assert last == inline
    assert len(trace.insts) == 2
    trace.append(inline)
    assert str(trace) == text
    assert [inst.kind.name for inst in trace.simplified(remove_postproc=True).insts] == ["GetBlock", "ComputeInline"]
    sch = Schedule(w.chain())
    trace.apply_to_schedule(sch, remove_postproc=False)
    assert "B" not in [sch.get(b).name_hint for b in sch.get_child_blocks("root")]
    assert Trace().pop() is None
    assert str(Trace()).endswith("  pass")


def test_decisions_by_instruction() -> None:
    sch = Schedule(w.matmul(12, 8, 4), seed=1)
    i, _, _ = sch.get_loops("C")
    sch.split(i, sch.sample_perfect_tile(i, 2, decision=[3, 4]))
    trace = sch.trace
    drawn = trace.insts[2]
    assert (drawn.kind.name, drawn.kind.is_pure) == ("SamplePerfectTile", True)
    assert (trace.decisions[drawn], trace.get_decision(drawn), dict(trace.decisions.items())) == (
        (3, 4),
        (3, 4),
        {drawn: (3, 4)},
    )
    assert drawn in trace.decisions
    assert trace.insts[0] not in trace.decisions
    with pytest.raises(KeyError):
        trace.decisions[trace.insts[0]]
    other = trace.with_decision(drawn, [6, 2])
    assert (other.decisions[0], trace.decisions[0]) == ((6, 2), (3, 4))
    with pytest.raises(ScheduleError, match="takes no decision"):
        trace.with_decision(trace.insts[0], 1)
    assert Trace(trace.insts, trace.decisions) == Trace(trace.insts, {drawn: [3, 4]}) == trace
    assert core.Trace.from_json(trace.to_json()) == trace == Trace.from_json(trace.to_json())
    told: list[Any] = []
    again = Schedule(w.matmul(12, 8, 4))
    trace.apply_to_schedule(again, decision_provider=lambda inst, inputs, attrs, old: told.append(old) or (2, 6))
    assert told == [(3, 4)]
    assert [again.get(loop).extent.value for loop in again.get_loops("C")[:2]] == [2, 6]


def test_malformed_instructions() -> None:
    with pytest.raises(FieldTraceError, match="NoSuch"):
        InstructionKind.get("NoSuch")
    with pytest.raises(FieldTraceError, match="3 inputs, not 2"):
        Trace([instruction("ComputeAt", [1, 2, 3])])
    with pytest.raises(FieldTraceError, match="it does not say name"):
        Trace([instruction("GetBlock", [], [], [BlockRV()])])
    with pytest.raises(FieldTraceError, match="must be loop"):
        Trace([instruction("Parallel", [BlockRV()])])
    with pytest.raises(FieldTraceError, match="says more than is known"):
        Trace([instruction("ReIndex", [BlockRV()], [0, 0, 1], [BlockRV()])])
    sch = Schedule(w.matmul(12, 8, 4), seed=0)
    sch.sample_tile(sch.get_loops("C")[0], 2)
    assert sch.trace.as_python()[-1].startswith("v4, v5 = sch.sample_tile(l1, n=2")
    with pytest.raises(FieldTraceError, match="no instruction for sample_tile"):
        sch.trace.as_json()


@pytest.mark.parametrize(
    "text", ["lambda i, j: ((i // 4), (j + (i % 4)),)", "lambda i: (((i * 3) - 2),)", "lambda i, j: ()"]
)
def test_maps_are_saved_and_read_again(text: str) -> None:
    assert map_of_saved(saved_map(text)) == text


def test_numbers_for_padding_are_saved_and_read_again() -> None:
    assert [map_of_saved(saved_map(value, 2)) for value in (0, 2.5, "inf", -3)] == [0, 2.5, "inf", -3]
    assert python_of_map(0.0, 2) == "lambda indices_0, indices_1: (T.float32(0),)"
    with pytest.raises(ValueError, match="not Select"):
        map_of_saved(saved_map("lambda i: (i + 1,)").replace("tir.Add", "tir.Select"))


def test_places_follow_the_steps() -> None:
    sch = Schedule(w.matmul(12, 8, 4))
    block = sch.get_block("C")
    i, _, _ = sch.get_loops(block)
    place = sch.get_sref(sch.get_sblock("C"))
    assert place is not None
    assert place.stmt is sch.get(block) is sch.get(place)
    assert sch.state.get_sref(sch.get(block)) == place
    outer = sch.get_sref(i)
    assert outer is not None
    parent = outer.parent
    assert parent is not None
    assert isinstance(parent.stmt, n.Block)
    assert parent.parent is None
    sch.split(i, [None, 4])
    assert outer.stmt is None
    assert place.parent is not None
    assert isinstance(place.parent.stmt, n.For)
    assert place.same_as(sch.get_sref(block))
    assert sch.state.mod["main"] is sch.func
    stranger = Schedule(w.matmul(12, 8, 4)).get_sref(sch.get(block))
    assert stranger is None
    sch.remove_rv(block)
    with pytest.raises(IndexError):
        sch.get(block)
    with pytest.raises(UnknownVariableError):
        sch.remove_rv(block)


def test_what_blocks_wait_for() -> None:
    for state in (
        ScheduleState(w.chain()),
        BlockDependenceInfo(IRModule({"main": w.chain()})),
        Schedule(w.chain()).state,
    ):
        func = state.mod["main"]
        assert isinstance(func, n.PrimFunc)
        assert isinstance(func.body, n.BlockRealize)
        root = state.get_sref(func.body.block)
        assert root is not None
        scope = state.get_sblock_scope(root)
        found = [(d.src.key, d.dst.key, d.kind) for d in scope.dependencies]
        assert found == [("B", "C", DepKind.RAW), ("C", "D", DepKind.RAW)]
        middle = scope.dependencies[0].dst
        assert [d.src.key for d in scope.get_deps_by_dst(middle)] == ["B"]
        assert [d.dst.key for d in scope.get_deps_by_src(middle)] == ["D"]
        assert middle.parent is not None
        with pytest.raises(ScheduleError, match="the place of a block"):
            state.get_block_scope(middle.parent)


def test_whether_padding_can_be_decomposed() -> None:
    sch = Schedule(w.conv())
    block = sch.get_block("pad_temp")
    assert sch.can_decompose_padding(block, sch.get_loops(block)[1])
    plain = Schedule(w.chain())
    assert not plain.can_decompose_padding("B", plain.get_loops("B")[0])


def test_a_trace_is_replayed_when_more_than_itself_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    func = w.matmul(12, 16, 10)
    made = Schedule(func)
    made.parallel(made.get_loops(made.get_block("C"))[0])
    replayed: list[object] = []
    replay = core_schedule.Schedule.replay.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        core_schedule.Schedule,
        "replay",
        classmethod(lambda cls, *given: (replayed.append(given), replay(cls, *given))[1]),
    )
    later = ReplayedLater(func, core_schedule.Schedule.trace.fget(made))  # type: ignore[attr-defined]
    assert str(later.trace) == str(made.trace)
    assert replayed == []
    assert structural_equal(later.copy().func, made.func)
    assert structural_equal(later.func, made.func)
    assert str(later.trace) == str(made.trace)
    assert len(replayed) == 1
    with pytest.raises(AttributeError, match="'nobody'"):
        _ = later.nobody


def test_a_statement_takes_the_place_of_another() -> None:
    state = ScheduleState(w.matmul(12, 8, 4))
    block = next(node for node in walk(state.mod["main"]) if isinstance(node, n.Block) and node.name_hint == "C")
    place = state.get_sref(block)
    assert place is not None
    loop = place.parent
    assert loop is not None
    assert isinstance(loop.stmt, n.For)
    state.replace(loop, replace(loop.stmt, kind=n.ForKind.UNROLLED))
    assert loop.stmt.kind is n.ForKind.UNROLLED
    noted = replace(block, annotations={"note": 1})
    state.replace(place, noted, {block: noted})
    assert place.stmt is noted
    with pytest.raises(ScheduleError, match="a For cannot take the place of a block"):
        state.replace(place, loop.stmt)
    with pytest.raises(ScheduleError, match="a schedule is the record of its steps"):
        Schedule(state.mod).state.replace(place, noted)
