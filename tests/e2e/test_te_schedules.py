"""Classic te schedules compute what numpy computes: as replayed, and lowered."""

import pytest
from te_schedules import CASES, check, inputs_of

from compiler.lower import interp
from compiler.lower.pipeline import lower_func
from compiler.te.replay import schedule_to_func
from compiler.tir.nodes import PrimFunc


def run(name: str, stage: str) -> None:
    schedule, args, reference = CASES[name]()
    given, made = inputs_of(args, schedule)
    func: PrimFunc = schedule_to_func(schedule, args)
    interp.run(lower_func(func) if stage == "lowered" else func, *given, *made)
    check(made, reference(*given))


@pytest.mark.parametrize("stage", ["scheduled", "lowered"])
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str, stage: str) -> None:
    run(name, stage)
