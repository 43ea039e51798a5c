"""Arithmetic of every dtype at its limits: machine code, the interpreter and numpy give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tunefarm as tvm
from compiler.driver.build import build, compile_artifact
from compiler.errors import CodegenError
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr
from tests.kit.compiler.elementwise import PLAIN, Array, agree, by_machine, elementwise
from tests.kit.compiler.lowering import HOST
from tunefarm import te

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DIVISIONS = [ops.truncdiv, ops.truncmod, ops.floordiv, ops.floormod]


def pairs(dtype: str) -> tuple[Array, Array]:
    """Every pair of 8-bit values; pairs of limits, small numbers and powers of two of the wider types."""
    info = np.iinfo(dtype)
    if info.bits == 8:
        values = np.arange(info.min, info.max + 1)
    else:
        near = [info.min, info.max, 0, info.max // 2, info.min // 2, info.max // 3]
        found = {v + d for v in near for d in (-3, -2, -1, 0, 1, 2, 3)} | {1 << b for b in range(info.bits - 1)}
        values = np.array(sorted(v for v in found if info.min <= v <= info.max), dtype=object)
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel().astype(dtype), b.ravel().astype(dtype)


def exact(op: Callable[..., Any], a: int, b: int) -> int:
    if b == 0:
        return 0
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    results = {ops.truncdiv: quotient, ops.truncmod: a - quotient * b, ops.floordiv: a // b, ops.floormod: a % b}
    return results[op]


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", DIVISIONS, ids=lambda op: op.__name__)
def test_division_by_anything(dtype: str, op: Callable[..., PrimExpr]) -> None:
    """By 0 it gives 0; the least integer by -1 wraps to itself; the process lives."""
    a, b = pairs(dtype)
    got = agree([dtype, dtype], dtype, op, [a, b])
    want = [ops.wrap_int(exact(op, x, y), dtype) for x, y in zip(a.tolist(), b.tolist())]
    assert got.tolist() == want


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_by_any_count(dtype: str) -> None:
    """Counts that are negative, or leave no bit, shift everything out."""
    a, b = pairs(dtype)
    bits = np.iinfo(dtype).bits
    left, right = (agree([dtype, dtype], dtype, op, [a, b]) for op in (intrin.left_shift, intrin.right_shift))
    for x, y, up, down in zip(a.tolist(), b.tolist(), left.tolist(), right.tolist()):
        inside = 0 <= y < bits
        assert up == (ops.wrap_int(x << y, dtype) if inside else 0)
        assert down == (x >> (y if inside else bits))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", [ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum], ids=lambda op: op.__name__)
def test_sums_and_products_wrap(dtype: str, op: Callable[..., PrimExpr]) -> None:
    a, b = pairs(dtype)
    numpy_op = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "minimum": np.minimum, "maximum": np.maximum}
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(agree([dtype, dtype], dtype, op, [a, b]), numpy_op[op.__name__](a, b))


FLOAT_EDGES = np.array(
    [0.0, -0.0, 0.5, -0.5, 1.5, -1.99, 126.99, 127.5, -128.9, 255.9, 256.0, -1.0, 32767.9, 65535.9, 2.0**31, -(2.0**31),
     2.0**31 - 1, 2.0**32, 2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan, 6e-8]
)  # fmt: skip


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", INTS)
def test_floats_to_integers_stop_at_the_limits(source: str, target: str) -> None:
    with np.errstate(over="ignore"):
        values = FLOAT_EDGES.astype("float32" if source == "bfloat16" else source)
    inputs = values.view(np.uint32) >> 16 if source == "bfloat16" else values
    inputs = inputs.astype(np.uint16) if source == "bfloat16" else inputs
    numbers = (inputs.astype(np.uint32) << 16).view(np.float32) if source == "bfloat16" else values
    info = np.iinfo(target)

    def expected(x: float) -> int:
        if np.isnan(x):
            return 0
        return info.max if x >= info.max else info.min if x <= info.min else int(x)

    for cpu in (HOST, PLAIN):
        got = agree([source], target, lambda a: ops.cast(target, a), [inputs], cpu)
        assert got.tolist() == [expected(float(x)) for x in numbers]


@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint16"])
def test_vectors_of_floats_become_narrow_integers_together(target: str) -> None:
    """They stop at the limits, and no lane is converted by itself."""
    lanes = 16
    values = np.resize(FLOAT_EDGES.astype("float32"), 2 * lanes)
    x = te.placeholder((2, lanes), "float32", name="x")
    y = te.compute((2, lanes), lambda i, j: x[i, j].astype(target), name="y")
    sch = Schedule(create_prim_func([x, y]))
    sch.vectorize(sch.get_loops(sch.get_block("y"))[-1])
    artifact = compile_artifact(sch.func, Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"), "f", keep=("asm",))
    assert b"vcvttss2" not in artifact.blobs["asm"]
    made = tvm.nd.empty((2, lanes), target)
    build(sch.func, target="llvm", name="f")(tvm.nd.array(values.reshape(2, lanes)), made)
    wanted = agree(["float32"], target, lambda a: ops.cast(target, a), [values])
    np.testing.assert_array_equal(made.numpy().reshape(-1), wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("least", [True, False])
def test_nan_survives_minimum_and_maximum(dtype: str, least: bool) -> None:
    values = np.array([np.nan, -np.inf, -1.0, -0.0, 0.0, 1e-40, 1.0, np.inf])
    a, b = (v.ravel().astype("float32" if dtype == "bfloat16" else dtype) for v in np.meshgrid(values, values))
    op = ops.minimum if least else ops.maximum
    inputs = [a, b] if dtype != "bfloat16" else [(v.view(np.uint32) >> 16).astype(np.uint16) for v in (a, b)]
    got = agree([dtype, dtype], dtype, op, inputs)
    if dtype != "bfloat16":
        np.testing.assert_array_equal(got, (np.minimum if least else np.maximum)(a, b))
    agree([dtype], dtype, lambda x: op(x, ops.const(0.0, dtype)), inputs[:1])


ALL_16 = np.arange(65536, dtype=np.uint16)


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
def test_every_float16_widens_exactly(cpu: Target) -> None:
    halves = ALL_16.view(np.float16)
    for wide in ("float32", "float64"):
        got = by_machine(elementwise(["float16"], wide, ops.as_expr, 65536), [halves], cpu)
        np.testing.assert_array_equal(got, halves.astype(wide))


def between(dtype: str) -> Array:
    """float32: each 16-bit value, the middles between neighbours and what is just beside those."""
    if dtype == "float16":
        exact_values = ALL_16.view(np.float16).astype(np.float32)
        steps = exact_values[np.isfinite(exact_values)].view(np.uint32)
        middle = steps + np.uint32(1 << 12)
    else:
        steps = (ALL_16.astype(np.uint32) << 16)[(ALL_16 & 0x7F80) != 0x7F80]
        middle = steps + np.uint32(1 << 15)
    tiny = np.ldexp(np.arange(-64, 64) / 8, -24 if dtype == "float16" else -133).astype(np.float32).view(np.uint32)
    return np.concatenate([steps, middle - np.uint32(1), middle, middle + np.uint32(1), tiny]).view(np.float32)


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
def test_float16_rounds_to_nearest_even(cpu: Target) -> None:
    values = np.concatenate([between("float16"), np.array([np.inf, -np.inf, np.nan, 65519.9, 65520, 1e9], "float32")])
    for source in ("float32", "float64"):
        inputs = values.astype(source)
        if source == "float64":  # just off the middle, where rounding twice shows
            inputs = np.concatenate([inputs, np.nextafter(inputs, 0), np.nextafter(inputs, np.inf)])
        got = by_machine(elementwise([source], "float16", lambda a: a, len(inputs)), [inputs], cpu)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, inputs.astype(np.float16))


def test_bfloat16_rounds_to_nearest_even() -> None:
    values = between("bfloat16")[::17]
    for source in ("float32", "float64"):
        inputs = values.astype(source)
        if source == "float64":
            inputs = np.concatenate([inputs, np.nextafter(inputs, 0), np.nextafter(inputs, np.inf)])
        got = agree([source], "bfloat16", lambda a: a, [inputs])
        low = got.astype(np.uint32) << 16
        error = np.abs(low.view(np.float32).astype(np.longdouble) - inputs)
        for step in (-1, 1):  # no neighbour is nearer, and of two as near the even one is taken
            other = (got + np.uint16(step & 0xFFFF)).astype(np.uint32) << 16
            with np.errstate(invalid="ignore"):
                further = np.abs(other.view(np.float32).astype(np.longdouble) - inputs)
            assert np.all(~np.isfinite(further) | (error < further) | ((error == further) & (got % 2 == 0)))


@pytest.mark.parametrize("cpu", [HOST, PLAIN], ids=["host", "plain"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_arithmetic_rounds_each_operation(dtype: str, cpu: Target) -> None:
    bits = np.random.default_rng(3).integers(0, 1 << 16, (2, 4001), dtype=np.uint16)
    a, b = (x.view(np.float16) if dtype == "float16" else x for x in bits)
    for op in (ops.add, ops.sub, ops.mul, n.Div, ops.less, ops.equal):
        out = "bool" if op in (ops.less, ops.equal) else dtype
        if dtype == "bfloat16" and out == dtype:  # NaN has many bits
            agree([dtype, dtype], "float32", lambda x, y, op=op: ops.cast("float32", op(x, y)), [a, b], cpu)
        else:
            agree([dtype, dtype], out, op, [a, b], cpu)


def test_choosing_between_bfloat16_values() -> None:
    bits = np.random.default_rng(3).integers(0, 0x7F80, (2, 1003), dtype=np.uint16)
    for cpu in (HOST, PLAIN):
        agree(["bfloat16"] * 2, "bfloat16", lambda x, y: n.Select(x < y, x, y), list(bits), cpu)
        agree(["bfloat16"] * 2, "bfloat16", lambda x, y: intrin.if_then_else(x < y, y * x, x), list(bits), cpu)
        agree(["bfloat16"] * 2, "bfloat16", lambda x, y: n.Select(x > y, x, y) + y, list(bits), cpu)


@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64"])
def test_integers_to_floats(source: str, target: str) -> None:
    a, _ = pairs(source)
    agree([source], target, lambda x: ops.cast(target, x), [np.unique(a)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_scalars_are_refused(dtype: str) -> None:
    out, scale, handle = n.decl_buffer((4,), dtype, "out"), n.Var("scale", dtype), n.Var("p", "handle")
    func = n.PrimFunc((handle, scale), n.BufferStore(out, scale, (ops.const(0),)), None, {handle: out})
    with pytest.raises(CodegenError, match=f"argument 'scale': a {dtype} scalar cannot be passed"):
        compile_artifact(func, HOST)


@pytest.mark.parametrize("op", [ops.minimum, ops.maximum], ids=lambda op: op.__name__)
def test_an_extreme_of_floats_is_one_instruction_and_a_choice(op: Callable[..., PrimExpr]) -> None:
    func = elementwise(["float32"] * 2, "float32", op, 64, 16)
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    asm = compile_artifact(func, target, name="main", keep=("asm",)).blobs["asm"].decode()
    loop = max(asm.split("LBB"), key=lambda block: block.count("%zmm"))
    assert loop.count(f"v{'min' if op is ops.minimum else 'max'}ps") == 1
    assert loop.count("vcmp") == 1
