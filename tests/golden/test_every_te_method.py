"""Each method of a te stage and schedule has a case with a golden text, which also runs, and a use that is refused.

The methods are those the classes have, and the cases tell which of them they call, so a new method fails here until it
has all of it: a case in `te_schedules.CASES` (its text is compared in `test_te_text`, its result with numpy's here) and
a row in `REFUSED`. What cannot have one of them stands in the tables below, with the reason.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.errors import ScheduleError
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import Schedule
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import Tensor
from tests.kit.compiler.schedules.te import Made
from tests.kit.compiler.schedules.te_primitives import CASES, rows

ASKED = {
    "Stage.attachment": "where a stage stands", "Stage.nest_text": "its loops as text",
    "Stage.tensorized": "whether an intrinsic does a loop", "Stage.reset": "what cache_write and rfactor do first",
    "Stage.loop_made_of": "which loop an axis is part of now",
    "Schedule.current": "the tensor as rewritten", "Schedule.normalize": "the schedule itself",
}  # fmt: skip
NOT_RUN = {
    "Stage.bind": "a CPU has no device threads; test_te_stage has its text",
    "Stage.env_threads": "a CPU has no device threads; test_te_stage_more runs it in the interpreter",
}
NEVER_REFUSED = {"Stage.compute_root": "where every stage stands at first"}

Use = Callable[[Schedule, Tensor, Tensor, Tensor], object]


def _gone(s: Schedule, c: Tensor) -> object:
    """An axis of C that was split away."""
    s[c].split(c.op.axis[0], factor=2)
    return c.op.axis[0]


REFUSED: dict[str, Use] = {
    "Stage.bind": lambda s, a, b, c: s[c].bind(c.op.axis[0], c.op.axis[1]),
    "Stage.cache_read": lambda s, a, b, c: s[c].cache_read(a, "local"),
    "Stage.cache_write": lambda s, a, b, c: s[a].cache_write("local"),
    "Stage.compute_at": lambda s, a, b, c: s[b].compute_at(s[c], _gone(s, c)),
    "Stage.compute_inline": lambda s, a, b, c: s[c].compute_inline(),
    "Stage.double_buffer": lambda s, a, b, c: s[a].double_buffer(),
    "Stage.env_threads": lambda s, a, b, c: s[c].env_threads(c.op.axis[0]),
    "Stage.fuse": lambda s, a, b, c: s[c].fuse(c.op.axis[1], c.op.axis[0]),
    "Stage.parallel": lambda s, a, b, c: s[c].parallel(_gone(s, c)),
    "Stage.pragma": lambda s, a, b, c: s[c].pragma(_gone(s, c), "auto_unroll_max_step", 8),
    "Stage.prefetch": lambda s, a, b, c: s[c].prefetch(b, c.op.axis[0], -1),
    "Stage.reorder": lambda s, a, b, c: s[c].reorder(c.op.axis[0], c.op.axis[0]),
    "Stage.rfactor": lambda s, a, b, c: s[c].rfactor(c.op.axis[0]),
    "Stage.rolling_buffer": lambda s, a, b, c: s[c].rolling_buffer(),
    "Stage.set_scope": lambda s, a, b, c: s[a].set_scope("disk"),
    "Stage.set_store_predicate": lambda s, a, b, c: s[c].set_store_predicate(c.op.axis[0].var + 1),
    "Stage.split": lambda s, a, b, c: s[c].split(c.op.axis[0], factor=0),
    "Stage.storage_align": lambda s, a, b, c: s[c].storage_align(c.op.axis[0], 8, 9),
    "Stage.store_at": lambda s, a, b, c: s[b].store_at(s[c], _gone(s, c)),
    "Stage.tensorize": lambda s, a, b, c: s[c].tensorize(c.op.axis[0], 5),
    "Stage.tile": lambda s, a, b, c: s[c].tile(c.op.axis[0], c.op.axis[1], 8, 0),
    "Stage.unroll": lambda s, a, b, c: s[c].unroll(_gone(s, c)),
    "Stage.vectorize": lambda s, a, b, c: s[c].vectorize(_gone(s, c)),
    "Schedule.cache_read": lambda s, a, b, c: s.cache_read(a, "local", [c]),
    "Schedule.cache_write": lambda s, a, b, c: s.cache_write(a, "local"),
    "Schedule.create_group": lambda s, a, b, c: s.create_group([b], [c]),
    "Schedule.rfactor": lambda s, a, b, c: s.rfactor(c, c.op.axis[0]),
}


def methods() -> list[str]:
    """List the methods that change a schedule."""
    public = [
        f"{cls.__name__}.{name}"
        for cls in (Stage, Schedule)
        for name, _ in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    ]
    return [name for name in public if name not in ASKED]


@contextmanager
def listening(calls: set[str]) -> Iterator[None]:
    """Note in `calls` which methods are called."""
    with pytest.MonkeyPatch.context() as patch:
        for cls in (Stage, Schedule):
            for name, method in inspect.getmembers(cls, inspect.isfunction):
                if not name.startswith("_"):
                    patch.setattr(cls, name, _noting(calls, f"{cls.__name__}.{name}", method))
        yield


def _noting(calls: set[str], name: str, method: Callable[..., object]) -> Callable[..., object]:
    def called(*args: object, **kwargs: object) -> object:
        calls.add(name)
        return method(*args, **kwargs)

    return called


@pytest.fixture(scope="module")
def case_of() -> dict[str, Made]:
    """Each method with a case that calls it, few others if there is a choice."""
    found: dict[str, tuple[int, Made]] = {}
    for make in CASES.values():
        calls: set[str] = set()
        with listening(calls):
            made = make()
        for name in calls:
            found[name] = min(found.get(name, (len(calls), made)), (len(calls), made), key=lambda item: item[0])
    return {name: made for name, (_, made) in found.items()}


@pytest.mark.parametrize("name", sorted(set(methods()) - NOT_RUN.keys()))
def test_it_has_a_case_that_runs(name: str, case_of: dict[str, Made]) -> None:
    assert name in case_of, f"no case calls {name}"
    schedule, args, reference = case_of[name]
    func = schedule_to_func(schedule, args)
    rng = np.random.default_rng(0)
    arrays = [rng.random([int(d) for d in tensor.shape]).astype(tensor.dtype) for tensor in args]
    inputs = inspect.signature(reference).parameters
    wanted = reference(*(a.copy() for a in arrays[: len(inputs)]))
    native = [array(a) for a in arrays]
    build(func, target="llvm")(*native)
    run(func, *arrays)
    for want, seen, compiled in zip(
        wanted if isinstance(wanted, tuple) else (wanted,), arrays[len(inputs) :], native[len(inputs) :], strict=True
    ):
        np.testing.assert_allclose(seen, want, rtol=1e-4)
        np.testing.assert_allclose(compiled.numpy(), want, rtol=1e-4)


def test_every_method_has_a_use_that_is_refused() -> None:
    assert sorted([*REFUSED, *NEVER_REFUSED]) == sorted(methods())


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_wrong_use_is_refused_with_its_line(name: str) -> None:
    s, (a, b, _, d) = rows(depth=3)

    def use_and_lower() -> object:
        return REFUSED[name](s, a, b, d), schedule_to_func(s, [a, d])

    with pytest.raises(ScheduleError) as caught:
        use_and_lower()
    assert name.partition(".")[2] in caught.value.message or name in ("Stage.tile",)
    assert "test_every_te_method.py:" in caught.value.message


def test_what_is_excepted_is_there() -> None:
    everything = {f"{cls.__name__}.{name}" for cls in (Stage, Schedule) for name in dir(cls)}
    assert {*ASKED, *NOT_RUN, *NEVER_REFUSED} <= everything
