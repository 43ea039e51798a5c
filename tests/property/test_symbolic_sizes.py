"""Random schedules of functions with symbolic shapes: each compiled once, then run at random sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.driver.pipeline import lower_func
from compiler.interp.interpreter import run
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.te.operation import compute, placeholder, size_var
from compiler.te.prim_func import create_prim_func
from compiler.te.reduction import max as te_max
from compiler.te.reduction import reduce_axis
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.lowering import chain, matmul, random_schedule, softmax
from tests.kit.fuzzing import FUZZ_CASES

SEEDS = FUZZ_CASES // 100 or 6
INTERPRETED = 150  # elements in all; more take the interpreter long


def pooled(size: Any) -> PrimFunc:
    """The maximum of windows of 3, two apart, of what is doubled before."""
    a = placeholder((size * 2 + 1,), name="A")
    b = compute((size * 2 + 1,), lambda i: a[i] * 2.0, name="B")
    k = reduce_axis((0, 3), name="k")
    return create_prim_func([size, a, compute((size,), lambda i: te_max(b[i * 2 + k], axis=k), name="C")])


def size(name: str) -> Any:
    return size_var(name, "int32")


WORKLOADS: dict[str, Callable[[], PrimFunc]] = {
    "matmul": lambda: matmul(size("n"), size("m"), size("k")),
    "chain": lambda: chain(size("n"), size("m")),
    "softmax": lambda: softmax(size("n"), size("m")),
    "pooled": lambda: pooled(size("n")),
    "half_known": lambda: matmul(size("n"), 24, 7),
}


@cache
def plainly(name: str) -> tuple[PrimFunc, Any]:
    """A workload as it is written, and built."""
    func = WORKLOADS[name]()
    return func, load_artifact(compile_artifact(func, "llvm", name="main"))


def arguments(func: PrimFunc, rng: random.Random, largest: int) -> list[Any]:
    """Arrays (or numbers) for `func`, each variable of its shapes drawn from 1 to `largest`."""
    sizes: dict[n.Var, int] = {}

    def value(expr: n.PrimExpr) -> int:
        match expr:
            case n.IntImm():
                return expr.value
            case n.Var():
                return sizes.setdefault(expr, rng.randint(1, largest))
            case n.Add():
                return value(expr.a) + value(expr.b)
            case n.Mul():
                return value(expr.a) * value(expr.b)
        raise AssertionError(expr)

    values = np.random.default_rng(rng.randrange(1 << 30))
    args: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            args.append(value(param))
        else:
            args.append(values.standard_normal([value(d) for d in buffer.shape]).astype(buffer.dtype))
    return args


def copies(args: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", WORKLOADS)
def test_one_build_agrees_at_every_size(name: str, seed: int) -> None:
    plain, reference = plainly(name)
    sch = random_schedule(plain, seed)
    lowered = lower_func(sch.func)
    module = load_artifact(compile_artifact(sch.func, "llvm", name="main"))
    rng = random.Random(seed)
    for largest in (3, 9, 9, 20, 40, 70):
        args = arguments(plain, rng, largest)
        want = _by_machine(reference, args)
        np.testing.assert_allclose(_by_machine(module, args), want, rtol=1e-3, atol=1e-4)
        if sum(a.size for a in args if isinstance(a, np.ndarray)) <= INTERPRETED:
            for func in (plain, sch.func, lowered):
                values = copies(args)
                run(func, *values)
                np.testing.assert_allclose(values[-1], want, rtol=1e-3, atol=1e-4)


def _by_machine(module: Any, args: list[Any]) -> Any:
    arrays = [array(a) if isinstance(a, np.ndarray) else a for a in args]
    module["main"](*arrays)
    return arrays[-1].numpy()
