"""Schedules of modules with several functions, blocks by their names, and what a schedule is made with."""

from __future__ import annotations

import pytest

from compiler.driver.build import lower
from compiler.errors import IRError, ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.trace import Trace
from tests.kit.compiler.schedules import workloads as w


def two() -> IRModule:
    return IRModule({"main": w.chain(), "product": w.matmul()})


def nameless() -> IRModule:
    return IRModule({"first": w.chain(), "second": w.matmul()})


def test_steps_are_about_main_until_another_is_worked_on() -> None:
    s = Schedule(two())
    assert s.func_working_on is not None
    assert s.func_working_on.name_hint == "main"
    s.compute_inline("B")
    s.work_on("product")
    s.parallel(s.get_loops("C")[0])
    assert "parallel" in s.mod["product"].script()
    assert s.func is s.mod["product"]
    w.check_same(s.mod["main"], w.chain())
    w.check_same(s.mod["product"], w.matmul())


def test_a_block_of_another_function_without_working_on_it() -> None:
    s = Schedule(two())
    block, same = s.get_block("C"), s.get_block("C", func_name="product")
    assert len(s.get_loops(block)) == 2
    assert len(s.get_loops(same)) == 3
    assert s.get(same).init is not None
    assert s.get(block).init is None


def test_the_trace_names_functions_other_than_main() -> None:
    s = Schedule(two())
    s.compute_inline("B")
    s.work_on("product")
    i, _, _ = s.get_loops("C")
    s.split(i, [None, 4])
    text = s.trace.to_json()
    assert s.trace.to_python().splitlines()[0] == "b0 = sch.get_block(name='B')"
    assert "b1 = sch.get_block(name='C', func_name='product')" in s.trace.to_python()
    again = Schedule.replay(two(), Trace.from_json(text))
    assert again.mod.script() == s.mod.script()
    written = Schedule(two())
    exec(s.trace.to_python("written"), {"written": written})
    assert written.mod.script() == s.mod.script()


def test_blocks_of_one_name_in_two_functions_are_renamed_apart() -> None:
    s = Schedule(IRModule({"main": w.matmul(), "other": w.matmul()}))
    mine, theirs = s.get_block("C"), s.get_block("C", "other")
    s.decompose_reduction(mine, s.get_loops(mine)[2])
    assert s.get(mine).name_hint == "C_update"
    assert s.get(theirs).name_hint == "C"


def test_a_module_without_main_waits_to_be_told() -> None:
    s = Schedule(nameless())
    assert s.func_working_on is None
    with pytest.raises(ScheduleError, match="get_block: which function") as caught:
        s.get_block("B")
    assert caught.value.hint == "work_on one, or give func_name: first, second"
    with pytest.raises(ScheduleError, match="which function"):
        _ = s.func
    assert int(s.get(s.sample_categorical([3], [1.0]))) == 3
    s.work_on("second")
    s.unroll(s.get_loops("C")[0])
    again = Schedule.replay(nameless(), s.trace)
    assert again.mod.script() == s.mod.script()


def test_loops_of_two_functions_do_not_mix() -> None:
    s = Schedule(two())
    with pytest.raises(ScheduleError, match="in different functions: main, product"):
        s.reorder(s.get_loops("C")[0], s.get_loops(s.get_block("C", "product"))[0])


def test_functions_that_are_not_there() -> None:
    s = Schedule(two())
    with pytest.raises(ScheduleError, match="work_on: there is no function 'x'") as caught:
        s.work_on("x")
    assert caught.value.hint == "the functions are: main, product"
    with pytest.raises(ScheduleError, match="get_block: there is no function 'x'"):
        s.get_block("C", func_name="x")
    with pytest.raises(IRError, match="has none"):
        Schedule(IRModule({}))


def test_a_lowered_function_beside_one_to_schedule() -> None:
    mixed = IRModule({"main": w.chain(), "done": lower(w.matmul())["main"]})
    s = Schedule(mixed)
    s.compute_inline("B")
    with pytest.raises(ScheduleError, match="'done' has no blocks: it was lowered"):
        s.work_on("done")
    assert s.mod["done"].script() == mixed["done"].script()


def test_a_copy_goes_its_own_way() -> None:
    s = Schedule(two())
    s.work_on("product")
    other = s.copy()
    other.parallel(other.get_loops("C")[0])
    assert "parallel" not in s.mod.script()
    assert "parallel" in other.mod["product"].script()


def test_a_block_by_name_wherever_one_is_taken() -> None:
    s = Schedule(w.matmul_relu())
    assert s.get("C").name_hint == "C"
    assert [s.get(b).name_hint for b in s.get_consumers("C")] == ["D"]
    s.cache_read("C", 0, "local")
    s.set_scope("C", 0, "local")
    s.annotate("D", "note", 1)
    s.blockize(["C", "D"])
    again = Schedule.replay(w.matmul_relu(), Trace.from_json(s.trace.to_json()))
    assert again.func.script() == s.func.script()


def test_a_name_that_is_no_block_leaves_the_schedule_as_it_was() -> None:
    s = Schedule(w.chain())
    with pytest.raises(ScheduleError, match="there is no block 'X'") as caught:
        s.compute_inline("X")
    assert caught.value.hint == "the blocks are: B, C, D"
    with pytest.raises(ScheduleError, match="compute_inline: "):
        s.compute_inline("D")
    assert s.trace == Trace()
    assert str(s.get_block("B")) == "b0"


def test_how_much_an_error_shows() -> None:
    def refusal(level) -> str:
        s = Schedule(w.matmul(), error_render_level=level)
        with pytest.raises(ScheduleError) as caught:
            s.parallel(s.get_loops("C")[2])
        assert caught.value.detail == {"primitive": "parallel"}
        return caught.value.message

    rule, _, nest = refusal("detail").partition("\n")
    assert "block C" in nest
    assert refusal("fast") == rule
    assert refusal("none") == "a step is illegal (not rendered)"


@pytest.mark.parametrize("options", [{"error_render_level": "loud"}, {"debug_mask": "some"}, {"debug_mask": 9}])
def test_options_that_are_not_there(options) -> None:
    with pytest.raises(ScheduleError, match=next(iter(options))):
        Schedule(w.chain(), **options)


@pytest.mark.parametrize("mask", ["all", "none", 0, 1, 3])
def test_checks_after_each_step(mask) -> None:
    s = Schedule(w.chain(), seed=1, debug_mask=mask, enable_check=True)
    s.compute_inline("B")
    s.fuse(*s.get_loops("C"))
    w.check_same(s, w.chain())
