"""Each schedule primitive has a golden text, runs where its tiles do not divide, and has a use that is refused.

What there is to test is asked of the registry, and which tests there are of the tests themselves, so a new primitive
fails here until it has all three:

* a case (`schedules.case.case`) whose trace has the step: `test_schedule_text` compares its text, and replays it;
* such a case on a function with an extent that 4 does not divide: it is interpreted, lowered and compiled here;
* an illegal use: a row of `CASES` in `unit/compiler/schedule/test_illegal.py`, or a
  `check_refused(func, steps, "<primitive>", rule)` in any module beside it.

A primitive that cannot have one of them stands in the tables below, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.step import get_primitive, known_primitives
from compiler.tir import ops
from compiler.tir.nodes import PrimFunc
from tests.golden.test_schedule_text import CASES
from tests.kit.compiler.schedules import workloads as w
from tests.kit.places import TESTS

_UNIT = TESTS / "unit" / "compiler" / "schedule"

NOT_RUN = {"bind": "a CPU and the interpreter have no device threads"}
NEVER_REFUSED = {"enter_postproc": "it takes nothing and changes nothing"}


@cache
def cases_with() -> dict[str, list[str]]:
    """The cases whose trace has each primitive."""
    found: dict[str, list[str]] = {name: [] for name in known_primitives()}
    for name, make in CASES.items():
        for prim in {step.prim for step in make()[1].trace.steps}:
            found[prim].append(name)
    return found


@cache
def refused() -> set[str]:
    """The primitives with a test of an illegal use."""
    return {name for path in _UNIT.glob("test_*.py") for name in _refused_in(ast.parse(path.read_text()))}


def _refused_in(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="check_refused") | ast.Name(id="check_refused"),
                args=[_, _, ast.Constant(value=str(name)), _],
            ):
                yield name
            case ast.AnnAssign(target=ast.Name(id="CASES"), value=ast.List(elts=rows)):
                for row in rows:
                    match row:
                        case ast.Tuple(elts=[ast.Constant(value=str(name)), _, _, _]):
                            yield name
                        case _:
                            pass
            case _:
                pass


def _odd(func: PrimFunc) -> bool:
    """Whether some extent of an argument is not divided by 4."""
    sizes = [ops.as_int(size) for buffer in func.buffer_map.values() for size in buffer.shape]
    return any(size is not None and size % 4 for size in sizes)


@pytest.mark.parametrize("name", known_primitives())
def test_it_has_a_golden_text(name: str) -> None:
    assert cases_with()[name], f"no case has a step {name}"


@pytest.mark.parametrize("name", sorted(set(known_primitives()) - NOT_RUN.keys()))
def test_it_runs_where_tiles_do_not_divide(name: str) -> None:
    made = [CASES[case]() for case in cases_with()[name]]
    func, sch = min((m for m in made if _odd(m[0])), key=lambda m: len(m[1].trace.steps))
    w.check_everywhere(sch, func)


@pytest.mark.parametrize("name", sorted(set(known_primitives()) - NEVER_REFUSED.keys()))
def test_an_illegal_use_is_tested(name: str) -> None:
    assert name in refused()


def test_the_exceptions_are_primitives() -> None:
    assert {*NOT_RUN, *NEVER_REFUSED} <= set(known_primitives())


@pytest.mark.parametrize("name", known_primitives())
def test_it_has_a_method_of_its_name(name: str) -> None:
    assert callable(getattr(Schedule, name))
    assert get_primitive(name).rewrite.__doc__
