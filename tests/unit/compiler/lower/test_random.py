"""Random legal schedules: the interpreter before and after lowering, and machine code, agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.lowering import assert_agreement, chain, conv2d, matmul, random_schedule, softmax
from tests.kit.fuzzing import cases

WORKLOADS: dict[str, Callable[[], PrimFunc]] = {
    "matmul": lambda: matmul(13, 18, 7),
    "matmul_int": lambda: matmul(9, 20, 6, "int32"),
    "conv": lambda: conv2d(7, 2, 3),
    "conv_stride": lambda: conv2d(9, 2, 2, 3, 2),
    "chain": lambda: chain(7, 33),
    "chain_int8": lambda: chain(5, 64, "int8"),
    "softmax": lambda: softmax(5, 37),
}


@pytest.mark.parametrize("seed", range(cases(3)))
@pytest.mark.parametrize("name", WORKLOADS)
def test_random_schedules(name: str, seed: int) -> None:
    plain = WORKLOADS[name]()
    assert_agreement(random_schedule(plain, seed * 101 + len(name)).func, plain, every_stage=False)
