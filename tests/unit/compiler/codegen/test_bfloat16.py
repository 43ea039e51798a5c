"""float32 rounded to bfloat16 by an instruction, which takes denormals for 0, and what keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.driver.build import compile_artifact
from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_artifact
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimFunc
from compiler.tir.visit import seq
from tests.kit.compiler.lowering import HOST
from tuner.space.analysis import blocks_of
from tuner.space.cpu.elementwise import spread

ZEN4, ZEN3 = (Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}") for cpu in ("znver4", "znver3"))
COUNT = 32
INSTRUCTION = "vcvtneps2bf16"


def kernel(multiplies: bool = True, lanes: int = COUNT) -> PrimFunc:
    """Round `x` to `y`, so many numbers at a time. Then multiply pairs of `y` by ones and add them up in `out`."""
    x, y = n.decl_buffer((COUNT,), "float32", "x"), n.decl_buffer((COUNT,), "bfloat16", "y")
    out = n.decl_buffer((COUNT // 2,), "float32", "out")
    stores: list[n.Stmt] = []
    for start in range(0, COUNT, lanes):
        at = n.Ramp(ops.const(start), ops.const(1), lanes)
        stores.append(n.BufferStore(y, ops.cast(f"bfloat16x{lanes}", n.BufferLoad(x, (at,))), (at,)))
    if multiplies:
        sums, pairs = (n.Ramp(ops.const(0), ops.const(1), size) for size in (COUNT // 2, COUNT))
        ones = n.Broadcast(ops.const(1.0, "bfloat16"), COUNT)
        given = n.BufferLoad(out, (sums,)), n.BufferLoad(y, (pairs,)), ones
        stores.append(n.BufferStore(out, intrin.call("tir.x86_dpbf16ps", "float32x16", *given), (sums,)))
    params = [n.Var(f"p{at}", "handle") for at in range(3)]
    attrs = {"tir.noalias": True, "global_symbol": "main"}
    return PrimFunc(tuple(params), seq(*stores), None, dict(zip(params, (x, y, out))), attrs)


def assembly(func: PrimFunc, target: Target) -> str:
    return compile_artifact(func, target, keep=("asm",)).blobs["asm"].decode()


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_an_instruction_rounds_a_vector_beside_products_of_pairs(lanes: int) -> None:
    assert INSTRUCTION in assembly(kernel(lanes=lanes), ZEN4)


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_other_kernels_round_vectors_with_denormals_once_more(lanes: int) -> None:
    """The ten instructions are behind the end of what usually runs."""
    made = assembly(kernel(False, lanes), ZEN4)
    assert made.count("vfpclassps") == max(1, COUNT // 16, COUNT // lanes)
    usual, _, rare = made.partition("\tret")
    assert INSTRUCTION in usual
    assert "vcmpunord" in rare
    assert "vcmpunord" not in usual


@pytest.mark.parametrize(("multiplies", "lanes", "target"), [(False, 4, ZEN4), (True, 4, ZEN4), (False, 32, ZEN3)])
def test_other_vectors_are_rounded_as_integers(multiplies: bool, lanes: int, target: Target) -> None:
    made = assembly(kernel(multiplies, lanes), target)
    assert INSTRUCTION not in made
    assert "__truncsfbf2" not in made


def test_constants_are_rounded_where_they_stand() -> None:
    """Before loops and branches, that is."""
    y = n.decl_buffer((COUNT,), "bfloat16", "y")
    value = n.Cast(f"bfloat16x{COUNT}", n.Broadcast(ops.const(1e-40), COUNT))
    param = n.Var("p", "handle")
    store = n.BufferStore(y, value, (n.Ramp(ops.const(0), ops.const(1), COUNT),))
    func = PrimFunc((param,), store, None, {param: y}, {"tir.noalias": True, "global_symbol": "main"})
    assert "vfpclass" not in assembly(func, ZEN4)


def edges() -> Any:
    """Ties, numbers beside them, the largest, infinities, NaN and denormals, of both signs."""
    tie = np.array([0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x7F7F8000, 0x7F7F7FFF], np.uint32)
    special = np.array([0x7F800000, 0x7FC00001, 0x00000000, 0x00400000, 0x00007FFF, 0x00800000], np.uint32)
    values = np.concatenate([tie, special, np.array([0x40490FDB, 0x007FFFFF, 0x2B8CBCCC, 0x4B000001], np.uint32)])
    return np.concatenate([values, values | np.uint32(1 << 31)]).view(np.float32)


def rounded(values: Any, denormals_are_zero: bool = True) -> Any:
    """The bits of bfloat16, to nearest even."""
    kept = values.view(np.uint32).astype(np.uint64)
    near = ((kept + 0x7FFF + ((kept >> 16) & 1)) >> 16).astype(np.uint16)
    near = np.where(np.isnan(values), (kept >> 16).astype(np.uint16) | 0x40, near)
    tiny = denormals_are_zero & (np.abs(values) < np.finfo(np.float32).smallest_normal)
    return np.where(tiny, (kept >> 16).astype(np.uint16) & 0x8000, near)


@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.skipif("avx512bf16" not in HOST.features, reason="this processor has no AVX512-BF16")
def test_numbers_are_rounded_to_the_nearest(lanes: int) -> None:
    rng = np.random.default_rng(lanes)
    noise = rng.integers(0, 1 << 32, COUNT, np.uint32, endpoint=False).view(np.float32)
    for values in (edges(), noise):
        made = empty((COUNT,), "bfloat16")
        module = load_artifact(compile_artifact(kernel(lanes=lanes), HOST, name="main"))
        module["main"](array(values), made, array(np.zeros(COUNT // 2, np.float32)))
        np.testing.assert_array_equal(made.numpy().view(np.uint16), rounded(values))


def all_kinds() -> Any:
    """Every upper half of a float32, with lower halves at and beside ties."""
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return ((np.arange(1 << 16, dtype=np.uint32)[:, None] << 16) | low).reshape(-1).view(np.float32)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.skipif("avx512bf16" not in HOST.features, reason="this processor has no AVX512-BF16")
def test_numbers_of_all_kinds_are_rounded_without_products(computed: bool, mixed: bool) -> None:
    """In vectors of one kind, and in vectors of several. `computed`: after a multiplication, in a loop, by threads."""
    values = all_kinds()
    values = np.random.default_rng(0).permutation(values) if mixed else values
    x, scale = placeholder(values.shape, name="x"), 0.5 if computed else 1.0
    found = compute(values.shape, lambda i: (x[i] * scale).astype("bfloat16") if computed else x[i].astype("bfloat16"))
    sch = Schedule(create_prim_func([x, found]))
    for info in blocks_of(sch.func):
        spread(sch, info, COUNT)
    artifact = compile_artifact(sch.func, HOST, name="main", keep=("asm",))
    assert INSTRUCTION in artifact.blobs["asm"].decode()
    made = empty(values.shape, "bfloat16")
    load_artifact(artifact)["main"](array(values), made)
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = rounded(values * np.float32(scale) if computed else values, denormals_are_zero=False)
    np.testing.assert_array_equal(made.numpy().view(np.uint16), wanted)
