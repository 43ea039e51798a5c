"""Products in narrow numbers by AVX-512 VNNI and AVX512-BF16: what is computed, and that the instructions are used."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.driver import compile_artifact
from compiler.errors import CodegenError
from compiler.lower.interp import run
from compiler.lower.pipeline import lower_func
from compiler.schedule.trace import Trace, apply_trace
from compiler.target import Target
from compiler.te.operation import compute, placeholder, reduce_axis
from compiler.te.operation import sum as te_sum
from compiler.te.prim_func import create_prim_func
from compiler.tir.nodes import PrimFunc
from tuner.space.generate import generate

SAPPHIRE = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2")
CASES = {
    "vpdpbusd": ("dot_16x4_vnni", "uint8", "int8", "int32"),
    "vdpbf16ps": ("dot_16x2_bf16", "bfloat16", "bfloat16", "float32"),
}


def product(shape: tuple[int, int, int], a: str, b: str, c: str, transposed: bool = False) -> PrimFunc:
    rows, columns, depth = shape
    x = placeholder((rows, depth), a, name="A")
    y = placeholder((columns, depth) if transposed else (depth, columns), b, name="B")
    k = reduce_axis((0, depth), name="k")

    def value(i, j):
        other = y[j, k] if transposed else y[k, j]
        return te_sum(x[i, k].astype(c) * other.astype(c), axis=k)

    return create_prim_func([x, y, compute((rows, columns), value, name="C")])


def bits(values: np.ndarray) -> np.ndarray:
    """bfloat16 numbers, as the interpreter holds them."""
    return (values.astype("float32").view("uint32") >> 16).astype("uint16")


def numbers(kept: np.ndarray) -> np.ndarray:
    return (kept.astype("uint32") << 16).view("float32")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("instruction", CASES)
def test_the_instruction_is_used_and_right(instruction, transposed):
    name, a, b, c = CASES[instruction]
    func = product((5, 32, 16), a, b, c, transposed)
    [sketch] = generate(func, SAPPHIRE)
    assert sketch.name == name
    rng = np.random.default_rng(0)
    point = sketch.random(rng)
    assert point is not None
    scheduled = apply_trace(func, Trace.from_json(sketch.trace_json(point))).func
    asm = compile_artifact(scheduled, SAPPHIRE, name="main", keep=("asm",)).blobs["asm"].decode()
    assert instruction in asm
    if a == "uint8":
        x = rng.integers(0, 256, (5, 16)).astype("uint8")
        y = rng.integers(-128, 128, (16, 32)).astype("int8")
        expected = x.astype("int32") @ y.astype("int32")
        held = [x, y]
    else:
        held = [bits(rng.uniform(-1, 1, (5, 16))), bits(rng.uniform(-1, 1, (16, 32)))]
        expected = numbers(held[0]) @ numbers(held[1])
    out = np.zeros((5, 32), c)
    held[1] = np.ascontiguousarray(held[1].T) if transposed else held[1]
    run(lower_func(scheduled, 512), *held, out)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_no_unit_is_offered_where_none_fits():
    a, b, c = CASES["vpdpbusd"][1:]
    plain = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3")
    assert all("dot" not in sketch.name for sketch in generate(product((5, 32, 16), a, b, c), plain))
    assert all("dot" not in sketch.name for sketch in generate(product((5, 30, 16), a, b, c), SAPPHIRE))


def test_code_for_a_cpu_without_the_unit_is_refused():
    func = product((5, 32, 16), *CASES["vpdpbusd"][1:])
    [sketch] = generate(func, SAPPHIRE)
    point = sketch.random(np.random.default_rng(0))
    assert point is not None
    scheduled = apply_trace(func, Trace.from_json(sketch.trace_json(point))).func
    with pytest.raises(CodegenError, match="avx512vnni"):
        compile_artifact(scheduled, Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3"), name="main")
