"""reindex: a copy indexed by a block's axes."""

from __future__ import annotations

import pytest

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import Schedule
from tests.kit.compiler.schedules import workloads as w


def test_a_window_is_laid_out() -> None:
    func = w.blur()
    sch = Schedule(func)
    copy = sch.reindex(sch.get_block("C"), ("read", 0))
    assert [int(s) for s in sch.get(copy).writes[0].buffer.shape] == [11, 3]
    w.check_everywhere(sch, func)


@pytest.mark.parametrize("buffer", ["A", "B", "C"])
def test_matmul_through_copies(buffer: str) -> None:
    func = w.matmul()
    sch = Schedule(func)
    copy = sch.reindex(sch.get_block("C"), buffer)
    assert sch.get(copy).name_hint == f"{buffer}_reindex"
    sch.transform_layout(copy, ("read" if buffer == "C" else "write", 0), lambda i, j: (j, i))
    w.check_everywhere(sch, func)


def test_what_cannot_be_indexed_by_axes() -> None:
    sch = Schedule(w.stencils(8))
    names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
    block = sch.get_block(names[-1])
    with pytest.raises(ScheduleError, match=r"(?s)reindex: block .* uses .* at \d different places.*<--"):
        sch.reindex(block, ("read", 0))
    with pytest.raises(ScheduleError, match="has no read buffer number 7"):
        sch.reindex(block, ("read", 7))
