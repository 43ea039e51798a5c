"""te schedules, built for this machine, compute what numpy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.driver.build import build, lower
from compiler.runtime.core.ndarray import array
from tests.kit.compiler.schedules import (
    te_primitives,  # noqa: F401  (adds its cases)
    te_scans,  # noqa: F401  (adds its cases)
)
from tests.kit.compiler.schedules.te import CASES, check, inputs_of
from tunefarm import te
from tunefarm.tir import ir_builder


@pytest.mark.parametrize("name", CASES)
def test_built_schedules(name: str) -> None:
    schedule, args, reference = CASES[name]()
    given, made = inputs_of(args, schedule)
    module = build(schedule, args, target="llvm")
    held = {id(t): array(values) for t, values in zip(_inputs(args), given)}
    held |= {id(t): array(values) for t, values in zip(_outputs(args), made)}
    module(*(held[id(t)] for t in args))
    check([held[id(t)].numpy() for t in _outputs(args)], reference(*given))


def _inputs(args: list) -> list:
    return [t for t in args if not t.op.input_tensors]


def _outputs(args: list) -> list:
    return [t for t in args if t.op.input_tensors]


@pytest.mark.parametrize("name", CASES)
def test_simple_mode_computes_the_same(name: str) -> None:
    schedule, args, reference = CASES[name]()
    given, made = inputs_of(args, schedule)
    module = build(lower(schedule, args, simple_mode=True), target="llvm")
    arrays = iter([array(v) for v in given])
    outs = [array(np.copy(v)) for v in made]
    rest = iter(outs)
    module(*(next(rest) if t.op.input_tensors else next(arrays) for t in args))
    check([o.numpy() for o in outs], reference(*given))


def test_what_an_iteration_writes_where_memory_says_is_kept_for_others() -> None:
    """The memory is the whole operation's, not one iteration's."""
    places = te.placeholder((6,), "int32", name="places")

    def body(ins: Any, outs: Any) -> Any:
        ib = ir_builder.create()
        place, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        first = ib.allocate("int32", (6,), "first")
        with ib.for_range(0, 6, "i") as i:
            with ib.if_scope(i < 3):
                first[place[i]] = i + 10
            result[i] = first[place[i]]
        return ib.get()

    found = te.extern((6,), [places], body, name="found", dtype="int32")
    module = build(te.create_schedule(found.op), [places, found], target="llvm")
    out = array(np.zeros(6, "int32"))
    module(array(np.array([2, 0, 1, 0, 1, 2], "int32")), out)
    assert out.numpy().tolist() == [10, 11, 12, 11, 12, 10]
