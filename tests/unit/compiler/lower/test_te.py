"""te schedules, built for this machine, compute what numpy computes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver.build import build, lower
from compiler.runtime.core.ndarray import array
from tests.kit.compiler.schedules import (
    te_primitives,  # noqa: F401  (adds its cases)
    te_scans,  # noqa: F401  (adds its cases)
)
from tests.kit.compiler.schedules.te import CASES, check, inputs_of


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
