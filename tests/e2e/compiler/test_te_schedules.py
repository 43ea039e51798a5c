"""Classic te schedules compute what numpy computes: as replayed, lowered, and built for this machine."""

import pytest

from compiler.driver.build import build
from compiler.driver.pipeline import lower_func
from compiler.interp import interpreter as interp
from compiler.runtime.core.ndarray import array
from compiler.te.schedule.replay import schedule_to_func
from tests.kit.compiler.schedules.te import check, inputs_of
from tests.kit.compiler.schedules.te_primitives import CASES


@pytest.mark.parametrize("stage", ["scheduled", "lowered"])
@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str, stage: str) -> None:
    schedule, args, reference = CASES[name]()
    given, made = inputs_of(args, schedule)
    func = schedule_to_func(schedule, args)
    interp.run(lower_func(func) if stage == "lowered" else func, *given, *made)
    check(made, reference(*given))


@pytest.mark.parametrize("name", CASES)
def test_built(name: str) -> None:
    schedule, args, reference = CASES[name]()
    given, made = inputs_of(args, schedule)
    module = build(schedule, args, target="llvm")
    arrays = [array(x) for x in (*given, *made)]
    module(*arrays)
    check([x.numpy() for x in arrays[len(given) :]], reference(*given))
