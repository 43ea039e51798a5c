"""Schedules written by hand are candidates of the workload itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tuner.engine.options import RunOptions
from tuner.errors import TuningError
from tuner.kernels.hand_schedules import HandSchedules
from tuner.kernels.jobs import read_job
from tuner.task import TuningTask

FILE = """
from tuner.kernels.hand_schedules import HandSchedules


def split(sch, factor=2):
    loop = sch.get_loops(sch.get_block("T_matmul"))[0]
    sch.split(loop, [None, factor])


def same(sch):
    split(sch)


def wider(sch):
    split(sch, 4)


mine = HandSchedules("matmul:8,4,4:float32", (split, same, wider))
"""


def test_a_file_s_schedules_are_candidates_of_the_workload(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (item,) = read_job([str(tmp_path / "mine.py:mine")]).items
    search = item.search("llvm", RunOptions())
    known = TuningTask.from_spec("matmul:8,4,4:float32", "llvm")
    assert (search.task.name, search.task.key, search.task.flops) == (known.name, known.key, known.flops)
    first, *others = search.strategy.ask(5)
    (second,) = others  # two of the three are the same
    assert not search.strategy.ask(1)
    again = search.recognise(first.digest, first.trace_json)
    assert again is not None
    assert again.trace_json == first.trace_json
    assert search.recognise("else", first.trace_json) is None
    a, b = np.random.default_rng(0).random((2, 8, 8), "float32")
    for candidate in (first, second):
        c = np.zeros((8, 4), "float32")
        run(apply_trace(known.func, Trace.from_json(candidate.trace_json)).func, a[:, :4].copy(), b[:4, :4].copy(), c)
        np.testing.assert_allclose(c, a[:, :4] @ b[:4, :4], rtol=1e-5)


def test_what_is_told_before_is_not_asked_for_again() -> None:
    def nothing(sch: Schedule) -> None:
        """The function as it is."""

    def reordered(sch: Schedule) -> None:
        i, j, _ = sch.get_loops("T_matmul")
        sch.reorder(j, i)

    search = HandSchedules("matmul:8,4,4:float32", (nothing, reordered)).search("llvm")
    (first,) = search.strategy.ask(1)
    (second,) = HandSchedules("matmul:8,4,4:float32", (reordered,)).search("llvm").strategy.ask(1)
    search.strategy.tell(second, 1e-3)
    assert not search.strategy.ask(1)
    assert first.digest != second.digest


def test_a_function_keeps_its_own_key_and_a_bad_schedule_is_named() -> None:
    func = TuningTask.from_spec("matmul:8,4,4:float32", "llvm").func

    def wrong(sch: Schedule) -> None:
        sch.split(sch.get_loops("T_matmul")[0], [None, 0])

    def typo(sch: Schedule) -> None:
        raise KeyError("loop")

    assert HandSchedules(func, ()).task(Target("llvm")).key == TuningTask("f", func, Target("llvm")).key
    for schedule, said in ((wrong, r"^wrong: "), (typo, r"^typo: KeyError: 'loop'")):
        with pytest.raises(TuningError, match=said):
            HandSchedules(func, (schedule,)).search("llvm")
