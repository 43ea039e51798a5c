"""Machine code against the interpreter, element by element, scalar and vectorised, at the limits of each type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering_kit import HOST, outputs_by_interpreter, outputs_by_machine

from compiler.driver import compile_artifact
from compiler.errors import CodegenError
from compiler.runtime.module import load_artifact
from compiler.runtime.ndarray import empty
from compiler.tir import intrin, ops
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, PrimExpr, PrimFunc

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
RELATIONS = [ops.less, ops.less_equal, ops.greater, ops.greater_equal, ops.equal, ops.not_equal]
COUNT = 64


def elementwise(dtypes: list[str], out: str, body: Callable[..., Any], vector: bool, count: int = COUNT) -> PrimFunc:
    """out[i] = body(in0[i], in1[i], ..., i)."""
    buffers = [n.decl_buffer((count,), d, f"in{k}") for k, d in enumerate(dtypes)]
    result = n.decl_buffer((count,), out, "out")
    i = n.Var("i")
    value = body(*(b[i] for b in buffers), i)
    store = n.BufferStore(result, ops.cast(out, value), (i,))
    kind = ForKind.VECTORIZED if vector else ForKind.SERIAL
    loop = n.For(i, ops.const(0), ops.const(count), kind, store)
    everything = [*buffers, result]
    params = tuple(n.Var(f"p{k}", "handle") for k in range(len(everything)))
    return PrimFunc(params, loop, None, dict(zip(params, everything)), {"tir.noalias": True})


def interesting(dtype: str, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = rng.standard_normal(COUNT) * 8
        values[:12] = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-6, 3.0, 100.0, -100.0]
        return values.astype(kind)
    info = np.iinfo(kind)
    values = rng.integers(info.min, info.max, COUNT, dtype=kind, endpoint=True)
    values[:8] = [info.min, info.max, 0, 1, info.max - 1, info.min + 1, 2, 7]
    values[20:50] = values[20:50] % 11
    rng.shuffle(values)
    return values


def check(
    dtypes: list[str], out: str, body: Callable[..., Any], inputs: list[Any] | None = None, tolerance: float = 0.0
) -> None:
    arrays = inputs or [interesting(d, 7 + k) for k, d in enumerate(dtypes)]
    args = [*arrays, np.zeros(COUNT, out)]
    for vector in (False, True):
        func = elementwise(dtypes, out, body, vector)
        want = outputs_by_interpreter(func, args)[-1]
        got = outputs_by_machine(func, args)[-1]
        if tolerance:
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=f"vector={vector}")
        else:
            np.testing.assert_array_equal(got, want, err_msg=f"vector={vector}")


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", [ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum])
def test_integer_arithmetic_wraps(dtype: str, op: Callable[..., PrimExpr]) -> None:
    check([dtype, dtype], dtype, lambda a, b, i: op(a, b))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", [ops.truncdiv, ops.truncmod, ops.floordiv, ops.floormod])
def test_integer_division(dtype: str, op: Callable[..., PrimExpr]) -> None:
    divisor = interesting(dtype, 3)
    divisor[divisor == 0] = 5
    check([dtype, dtype], dtype, lambda a, b, i: op(a, b), [interesting(dtype, 2), divisor])
    for constant in (1, 3, 8, 100):
        check([dtype], dtype, lambda a, i, c=constant: op(a, ops.const(c, dtype)))
    if dtype.startswith("int"):
        for constant in (-1, -3, -8):
            check([dtype], dtype, lambda a, i, c=constant: op(a, ops.const(c, dtype)))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", [ops.truncdiv, ops.truncmod, ops.floordiv, ops.floormod])
def test_division_of_loop_variables(dtype: str, op: Callable[..., PrimExpr]) -> None:
    for constant in (1, 3, 4, 7):
        check([], dtype, lambda i, c=constant: op(ops.cast(dtype, i) - 30, ops.const(c, dtype)))


def test_index_arithmetic_that_overflows_its_type_wraps() -> None:
    check([], "int32", lambda i: ops.floordiv(i * 1_000_000_007, 3))
    check([], "int64", lambda i: ops.cast("int64", i * 1_000_000_007))


@pytest.mark.parametrize("dtype", INTS)
def test_bits(dtype: str) -> None:
    check([dtype, dtype], dtype, lambda a, b, i: (a & b) ^ (a | ~b))
    width = np.dtype(dtype).itemsize * 8
    by = np.arange(COUNT, dtype=dtype) % np.asarray(width, dtype)
    check([dtype, dtype], dtype, lambda a, b, i: a << b, [interesting(dtype, 1), by])
    check([dtype, dtype], dtype, lambda a, b, i: a >> b, [interesting(dtype, 1), by])
    check([dtype], dtype, lambda a, i: intrin.call("tir.popcount", dtype, a))
    check([dtype], dtype, lambda a, i: intrin.call("tir.clz", dtype, a))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
@pytest.mark.parametrize(
    "relation", [ops.less, ops.less_equal, ops.greater, ops.greater_equal, ops.equal, ops.not_equal]
)
def test_comparisons(dtype: str, relation: Callable[..., PrimExpr]) -> None:
    check([dtype, dtype], "bool", lambda a, b, i: relation(a, b))
    check([dtype, dtype], dtype, lambda a, b, i: n.Select(relation(a, b), a, b))


@pytest.mark.parametrize("source", [*INTS, *FLOATS, "bool"])
@pytest.mark.parametrize("target", [*INTS, *FLOATS, "bool"])
def test_conversions(source: str, target: str) -> None:
    if source == "bool":
        values = np.arange(COUNT) % 3 == 0
    elif source in FLOATS:
        values = interesting(source, 5)
        if target.startswith("u"):
            values = np.abs(values)
    else:
        values = interesting(source, 5)
    check([source], target, lambda a, i: ops.cast(target, a), [values])


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_arithmetic(dtype: str) -> None:
    for op in (ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum):
        check([dtype, dtype], dtype, lambda a, b, i, op=op: op(a, b))
    divisor = interesting(dtype, 3)
    divisor[divisor == 0] = 4
    inputs = [interesting(dtype, 2), divisor]
    for kind in (n.Div, n.FloorDiv):
        check([dtype, dtype], dtype, lambda a, b, i, kind=kind: kind(a, b), inputs)
    for kind in (n.Mod, n.FloorMod):
        check([dtype, dtype], dtype, lambda a, b, i, kind=kind: kind(a, b), inputs, tolerance=1e-2)


_TOLERANCE = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-14}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", intrin.FLOAT_UNARY)
def test_float_functions(name: str, dtype: str) -> None:
    values = interesting(dtype, 9)
    if name.startswith("log") or name in ("sqrt", "rsqrt"):
        values = np.abs(values) + np.asarray(0.25, dtype)
    if name in ("asin", "acos"):
        values = np.clip(values, -1, 1)
    if name.startswith("exp") or name in ("sinh", "cosh"):
        values = np.clip(values, -9, 4)
    function = getattr(intrin, name)
    check([dtype], dtype, lambda a, i: function(a), [values.astype(dtype)], tolerance=_TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_several_arguments(dtype: str) -> None:
    a, b = np.abs(interesting(dtype, 1)) % 4 + np.asarray(0.5, dtype), interesting(dtype, 2) % 3
    tolerance = _TOLERANCE[dtype]
    check([dtype, dtype], dtype, lambda x, y, i: intrin.power(x, y), [a, b], tolerance)
    check([dtype, dtype], dtype, lambda x, y, i: intrin.fma(x, y, x), [a, b], tolerance)
    for name in ("atan2", "hypot", "copysign", "fmod"):
        check(
            [dtype, dtype],
            dtype,
            lambda x, y, i, name=name: intrin.call(f"tir.{name}", dtype, x, y),
            [a, b + np.asarray(0.25, dtype)],
            tolerance * 4,
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_classification(dtype: str) -> None:
    values = interesting(dtype, 1)
    values[:3] = [np.inf, -np.inf, np.nan]
    check([dtype], "bool", lambda a, i: intrin.call("tir.isnan", "bool", a), [values])
    check([dtype], "bool", lambda a, i: intrin.call("tir.isinf", "bool", a), [values])


def test_booleans_and_logic() -> None:
    a, b = np.arange(COUNT) % 2 == 0, np.arange(COUNT) % 3 == 0
    check(["bool", "bool"], "bool", lambda x, y, i: ops.logical_or(ops.logical_and(x, ops.logical_not(y)), y), [a, b])
    check(["bool"], "int32", lambda x, i: n.Select(x, i, i - 1), [a])


def test_reinterpret() -> None:
    check(["float32"], "uint32", lambda a, i: intrin.call("tir.reinterpret", "uint32", a))
    check(["int64"], "float64", lambda a, i: intrin.call("tir.reinterpret", "float64", a), [np.arange(COUNT) << 40])


def test_bfloat16_rounds_each_operation() -> None:
    """bfloat16 travels as its bits; sums and products are rounded to nearest even."""
    values = np.random.default_rng(0).standard_normal((2, COUNT)).astype(np.float32)
    bits = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in values]
    for vector in (False, True):
        func = elementwise(["bfloat16", "bfloat16"], "bfloat16", lambda a, b, i: a * b + a, vector)
        args = [*bits, np.zeros(COUNT, np.uint16)]
        want = outputs_by_interpreter(func, args)[-1]
        got = bfloat16_by_machine(func, args)
        np.testing.assert_array_equal(got, want)


def bfloat16_by_machine(func: PrimFunc, bits: list[Any]) -> Any:
    module = load_artifact(compile_artifact(func, HOST, name="main"))
    arrays = [empty(b.shape, "bfloat16") for b in bits]
    for held, b in zip(arrays, bits):
        held.copyfrom(b.view(held.numpy().dtype))
    module["main"](*arrays)
    return arrays[-1].numpy().view(np.uint16)


def test_narrow_integers_are_refused() -> None:
    func = elementwise(["int4"], "int4", lambda a, i: a, False)
    with pytest.raises(CodegenError, match="no machine type for int4"):
        outputs_by_machine(func, [np.zeros(COUNT, np.int8), np.zeros(COUNT, np.int8)])
