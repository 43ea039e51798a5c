"""Default schedules: each rule takes the kernels it is for, and what it makes of them computes the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tunefarm as tvm
from compiler.driver.build import lower
from compiler.errors import ArgumentError
from compiler.interp import interpreter as interp
from compiler.ir.module import IRModule
from compiler.target.target import Target
from compiler.tir import nodes as n
from tests.kit.gpu.checks import run_threads
from tunefarm import dlight as dl
from tunefarm import te, topi
from tuner.faces.dlight.kinds import KernelKind, kind_of

CPU, GPU = Target("llvm -num-cores=2"), Target("cuda -arch=sm_80")
SIZES = st.integers(2, 19)
RULES = {
    KernelKind.MATMUL: "Matmul",
    KernelKind.GEMV: "GEMV",
    KernelKind.REDUCTION: "Reduction",
    KernelKind.GENERAL_REDUCTION: "GeneralReduction",
    KernelKind.TRANSPOSE: "Transpose",
}


def placeholders(*shapes: tuple[int, ...]) -> list[Any]:
    return [te.placeholder(shape, name=name) for name, shape in zip("ABC", shapes)]


def kernel(kind: KernelKind, a: int, b: int, c: int) -> n.PrimFunc:
    """A kernel of a kind, with something element by element beside it."""
    match kind:
        case KernelKind.MATMUL:
            args = placeholders((a, c), (c, b), (1, b))
            out = topi.nn.relu(topi.add(topi.matmul(*args[:2]), args[2]))
        case KernelKind.GEMV:
            args = placeholders((1, c), (c, b))
            out = topi.nn.relu(topi.matmul(*args))
        case KernelKind.REDUCTION:
            args = placeholders((a, b, c))
            out = topi.sum(topi.exp(args[0]), axis=-1)
        case KernelKind.GENERAL_REDUCTION:
            args = placeholders((a, b))
            out = topi.nn.softmax(args[0])
        case KernelKind.TRANSPOSE:
            args = placeholders((a, b, c))
            out = topi.transpose(args[0], (0, 2, 1))
        case KernelKind.OTHER:
            args = placeholders((a, b), (a, b))
            out = topi.add(*args)
    made: n.PrimFunc = te.create_prim_func([*args, out])
    return made


def arrays(func: n.PrimFunc) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [tuple(int(size) for size in func.buffer_map[param].shape) for param in func.params]  # type: ignore[call-overload]
    return [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]


def expected(func: n.PrimFunc) -> Any:
    wanted = arrays(func)
    interp.run(func, *wanted)
    return wanted[-1]


def everything(rules: Any) -> list[Any]:
    return [getattr(rules, name)() for name in (*RULES.values(), "Fallback")]


@pytest.mark.parametrize("kind", KernelKind)
@settings(max_examples=3, deadline=None)
@given(a=SIZES, b=SIZES, c=SIZES)
def test_schedules_for_cpus_compute_the_same(kind: KernelKind, a: int, b: int, c: int) -> None:
    func = kernel(kind, a, b, c)
    with CPU:
        made = dl.ApplyDefaultSchedule(*everything(dl.cpu))(IRModule({"main": func}))["main"]
    assert made.attrs["tir.is_scheduled"] == 1
    found = arrays(func)
    interp.run(made, *found)
    np.testing.assert_allclose(found[-1], expected(func), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KernelKind)
@settings(max_examples=2, deadline=None)
@given(a=SIZES, b=SIZES, c=SIZES)
def test_schedules_for_gpus_compute_the_same(kind: KernelKind, a: int, b: int, c: int) -> None:
    func = kernel(kind, a, b, c)
    with GPU:
        made = dl.ApplyDefaultSchedule(*everything(dl.gpu))(IRModule({"main": func}))["main"]
        lowered = lower(made)
    found = arrays(func)
    run_threads(lowered, *found)
    np.testing.assert_allclose(found[-1], expected(func), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KernelKind)
def test_a_rule_takes_its_kind_only(kind: KernelKind) -> None:
    func = kernel(kind, 7, 8, 9)
    assert kind_of(func) is kind
    for rules, target, other in ((dl.cpu, CPU, GPU), (dl.gpu, GPU, CPU)):
        taken = [of for of, name in RULES.items() if getattr(rules, name)().apply(func, target, False) is not None]
        assert taken == ([] if kind is KernelKind.OTHER else [kind])
        assert rules.Fallback().apply(func, target, False) is not None
        assert rules.Fallback().apply(func, other, False) is None


def test_what_somebody_scheduled_stays_and_rules_may_be_functions() -> None:
    sch = tvm.tir.Schedule(kernel(KernelKind.OTHER, 4, 5, 6))
    sch.parallel(sch.get_loops(sch.get_block("T_add"))[0])
    assert dl.cpu.Fallback().apply(sch.mod["main"], CPU, False) is None
    asked = []

    @dl.ScheduleRule.from_callable("Mine")
    def mine(func: n.PrimFunc, target: Target, tunable: bool) -> Any:
        asked.append(func)
        return None

    func = kernel(KernelKind.MATMUL, 4, 5, 6)
    with CPU:
        module = dl.ApplyDefaultSchedule(mine())(IRModule({"f": func, "g": func.with_attr("tir.is_scheduled", 1)}))
    assert asked == [func]
    assert module["f"] is func
    with pytest.raises(ArgumentError, match="no ScheduleRule"):
        dl.ApplyDefaultSchedule(dl.cpu.Matmul)  # type: ignore[arg-type]
