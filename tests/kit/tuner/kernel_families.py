"""A Python kernel for tests of families: the same config at every size."""

from __future__ import annotations

from compiler.schedule.core.schedule import Schedule
from compiler.te.operation import compute
from compiler.te.prim_func import create_prim_func
from compiler.te.tensor import placeholder
from compiler.tir.nodes import PrimFunc
from tuner.kernels.kernel import FunctionKernel
from tuner.kernels.space import Config, KernelSpace


def doubled_func(size: int) -> PrimFunc:
    """Twice its argument, of `size` numbers."""
    a = placeholder((size,), name="A")
    return create_prim_func([a, compute((size,), lambda i: a[i] * 2.0, name="B")])


def doubled_kernel(size: int) -> FunctionKernel:
    """Its kernel, with the lanes of a vector to choose."""

    def make(config: Config) -> PrimFunc:
        schedule = Schedule(doubled_func(size))
        _, inner = schedule.split(schedule.get_loops(schedule.get_block("B"))[0], [None, int(config["LANES"])])
        schedule.vectorize(inner)
        return schedule.func

    return FunctionKernel("twice", make, KernelSpace({"LANES": [2, 4, 8]}), doubled_func(size))
