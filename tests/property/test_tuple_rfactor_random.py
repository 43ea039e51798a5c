"""Random reductions of several values, factored at random, compute what they did: in TensorIR and in te.

Values that are compared differ from each other, so that no order of the iterations changes the place that is found.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from compiler.driver.build import build
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.schedule.core.schedule import Schedule
from compiler.te import operation as te
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import comm_reducer
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.schedule.schedule import create_schedule
from compiler.te.tensor import Tensor
from compiler.tir import nodes as n
from compiler.tir import ops
from tests.kit.fuzzing import cases

LEAST = -3.4e38

Values = tuple[n.PrimExpr, ...]
Combine = Callable[[Values, Values], Values]


def _by(condition: Callable[[Values, Values], n.PrimExpr], own_first: bool = True) -> Combine:
    """Choose all values of one side."""
    if own_first:
        return lambda x, y: tuple(n.Select(condition(x, y), a, b) for a, b in zip(x, y))
    return lambda x, y: tuple(n.Select(condition(x, y), b, a) for a, b in zip(x, y))


def _first_of_equals(x: Values, y: Values) -> n.PrimExpr:
    return n.Or(x[1] > y[1], n.And(n.EQ(x[1], y[1]), x[0] < y[0]))


COMBINERS: list[tuple[Combine, float]] = [
    (_by(lambda x, y: x[1] >= y[1]), LEAST),
    (_by(lambda x, y: x[1] > y[1]), LEAST),
    (_by(lambda x, y: y[1] > x[1], own_first=False), LEAST),
    (_by(lambda x, y: x[1] <= y[1]), -LEAST),
    (_by(lambda x, y: n.Not(x[1] > y[1])), -LEAST),
    (_by(_first_of_equals), LEAST),
    (lambda x, y: (x[0] + y[0], x[1] + y[1]), 0.0),
    (lambda x, y: (x[0] + y[0], n.Max(x[1], y[1])), LEAST),
    (lambda x, y: (n.Min(x[0], y[0]), n.Select(x[1] >= y[1], x[1], y[1])), LEAST),
]


def _workload(rng: random.Random) -> tuple[list[Tensor], list[np.ndarray]]:
    """Rows reduced to two values each, and what is reduced."""
    rows, size, depth = rng.randint(1, 5), rng.randint(1, 11), rng.randint(1, 4)
    combine, least = rng.choice(COMBINERS)
    reducer = comm_reducer(combine, lambda a, b: (ops.const(0, a), ops.const(least, b)), "both")
    places = te.placeholder((rows, size, depth), "int32", "places")
    values = te.placeholder((rows, size, depth), name="values")
    i, j = te.reduce_axis((0, size), name="i"), te.reduce_axis((0, depth), name="j")
    where = None if rng.random() < 0.7 else i < max(1, size - 1)
    axes = [i, j] if rng.random() < 0.5 else [j, i]
    both = te.compute(
        (rows,), lambda r: reducer((places[r, i, j], values[r, i, j]), axis=axes, where=where), name="both"
    )
    data = np.random.default_rng(rng.randrange(1 << 30))
    given = data.permutation(rows * size * depth).reshape(rows, size, depth)
    results = [both[index] for index in range(2)]
    return [places, values, *results], [given.astype("int32") - 7, given.astype("float32") - 20]


def _outputs(func: n.PrimFunc, given: list[np.ndarray], native: bool = False) -> list[np.ndarray]:
    rows = given[0].shape[0]
    arrays = [*given, np.full(rows, 77, "int32"), np.full(rows, np.nan, "float32")]
    if not native:
        run(func, *arrays)
        return arrays[2:]
    held = [array(a) for a in arrays]
    build(func, target="llvm")(*held)
    return [a.numpy() for a in held[2:]]


def _check(func: n.PrimFunc, wanted: list[np.ndarray], given: list[np.ndarray], native: bool) -> None:
    for found in [_outputs(func, given), *([_outputs(func, given, native=True)] if native else [])]:
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_allclose(found[1], wanted[1], rtol=1e-5)


@pytest.mark.parametrize("seed", range(cases(40)))
def test_factored_blocks(seed: int) -> None:
    rng = random.Random(seed)
    tensors, given = _workload(rng)
    func = create_prim_func(tensors)
    sch = Schedule(func)
    _, first, second = sch.get_loops("both")
    loop = sch.fuse(first, second) if rng.random() < 0.4 else rng.choice([first, second])
    parts = sch.split(loop, rng.choice([[None, 2], [3, None], [None, 4], [1, None], [None, 20]]))
    partial = sch.rfactor(rng.choice(parts), rng.randint(-1, 1))
    if rng.random() < 0.5:
        sch.parallel(sch.get_loops(partial)[0])
    if rng.random() < 0.5:
        sch.decompose_reduction(sch.get_block("both"), sch.get_loops("both")[1])
    _check(sch.func, _outputs(func, given), given, native=seed % 4 == 0)


@pytest.mark.parametrize("seed", range(cases(30)))
def test_factored_stages(seed: int) -> None:
    rng = random.Random(seed + 1000)
    tensors, given = _workload(rng)
    wanted = _outputs(create_prim_func(tensors), given)
    s = create_schedule(tensors[2].op)
    stage = s[tensors[2]]
    axis = rng.choice(list(tensors[2].op.reduce_axis))
    parts = stage.split(axis, factor=rng.randint(1, 5))
    partial = s.rfactor(tensors[2], rng.choice(parts), rng.randint(0, 1))
    if rng.random() < 0.5:
        s[partial[0]].parallel(s[partial[0]].op.axis[0])
    if rng.random() < 0.4:
        s[partial[0]].compute_at(s[tensors[2]], s[tensors[2]].op.reduce_axis[0])
    func = schedule_to_func(s, tensors)
    _check(func, wanted, given, native=seed % 4 == 0)
