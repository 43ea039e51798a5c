"""Kernels of a user's own, as build workers import them."""

from __future__ import annotations

from compiler.schedule.core.schedule import Schedule
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc

N = 4096


def scaled() -> PrimFunc:
    """B = A * 3."""
    a = placeholder((N,), name="A")
    return create_prim_func([a, compute((N,), lambda i: a[i] * 3.0, name="B")])


def make_scaled(config) -> PrimFunc:
    """`scaled` with LANES at a time, in parallel chunks; WRONG = 1 computes something else."""
    a = placeholder((N,), name="A")
    factor = 4.0 if config["WRONG"] else 3.0
    sch = Schedule(create_prim_func([a, compute((N,), lambda i: a[i] * factor, name="B")]))
    _, inner = sch.split(sch.get_loops(sch.get_block("B"))[0], [None, int(config["LANES"])])
    sch.vectorize(inner)
    return sch.func


SAXPY = """
void saxpy(const float* x, const float* y, float* out) {
  for (int i = 0; i < 4096; i += UNROLL)
    for (int j = 0; j < UNROLL; ++j) out[i + j] = (float)SCALE * x[i + j] + y[i + j];
}
"""
