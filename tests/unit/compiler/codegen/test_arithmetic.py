"""Machine code against the interpreter, element by element, scalar and vectorised, at the limits of each type."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

from compiler.driver.build import compile_artifact
from compiler.errors import CodegenError
from compiler.runtime.core.ndarray import empty
from compiler.runtime.load import load_artifact
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind, PrimExpr, PrimFunc
from compiler.tir.visit import seq
from tests.kit.compiler.lowering import HOST, outputs_by_interpreter, outputs_by_machine

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
RELATIONS = [ops.less, ops.less_equal, ops.greater, ops.greater_equal, ops.equal, ops.not_equal]
COUNT = 64


Body = Callable[..., Any]


def elementwise(dtypes: list[str], out: str, body: Body, vector: bool) -> PrimFunc:
    """out[i] = body(in0[i], in1[i], ..., i)."""
    return all_elementwise(dtypes, [(out, body)], vector)


def all_elementwise(dtypes: list[str], results: list[tuple[str, Body]], vector: bool) -> PrimFunc:
    """A loop for each result, all in one function: LLVM takes longer over eight functions than over one of eight."""
    buffers = [n.decl_buffer((COUNT,), d, f"in{k}") for k, d in enumerate(dtypes)]
    outputs = [n.decl_buffer((COUNT,), out, f"out{k}") for k, (out, _) in enumerate(results)]
    kind = ForKind.VECTORIZED if vector else ForKind.SERIAL
    loops = []
    for result, (out, body) in zip(outputs, results):
        i = n.Var("i")
        store = n.BufferStore(result, ops.cast(out, body(*(b[i] for b in buffers), i)), (i,))
        loops.append(n.For(i, ops.const(0), ops.const(COUNT), kind, store))
    everything = [*buffers, *outputs]
    params = tuple(n.Var(f"p{k}", "handle") for k in range(len(everything)))
    return PrimFunc(params, seq(*loops), None, dict(zip(params, everything)), {"tir.noalias": True})


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


def check(dtypes: list[str], out: str, body: Body, inputs: list[Any] | None = None, tolerance: float = 0.0) -> None:
    check_all(dtypes, [(out, body)], inputs, tolerance)


def check_all(
    dtypes: list[str], results: list[tuple[str, Body]], inputs: list[Any] | None = None, tolerance: float = 0.0
) -> None:
    arrays = inputs or [interesting(d, 7 + k) for k, d in enumerate(dtypes)]
    args = [*arrays, *(np.zeros(COUNT, out) for out, _ in results)]
    for vector in (False, True):
        func = all_elementwise(dtypes, results, vector)
        wanted = outputs_by_interpreter(func, args)[len(arrays) :]
        found = outputs_by_machine(func, args)[len(arrays) :]
        for number, (want, got) in enumerate(zip(wanted, found, strict=True)):
            about = f"result {number}, vector={vector}"
            if tolerance:
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=about)
            else:
                np.testing.assert_array_equal(got, want, err_msg=about)


@pytest.mark.parametrize("dtype", INTS)
def test_integer_arithmetic_wraps(dtype: str) -> None:
    each = (ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum)
    check_all([dtype, dtype], [(dtype, lambda a, b, i, op=op: op(a, b)) for op in each])


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", [ops.truncdiv, ops.truncmod, ops.floordiv, ops.floormod])
def test_integer_division(dtype: str, op: Callable[..., PrimExpr]) -> None:
    divisor = interesting(dtype, 3)
    divisor[divisor == 0] = 5
    check([dtype, dtype], dtype, lambda a, b, i: op(a, b), [interesting(dtype, 2), divisor])
    constants = (1, 3, 8, 100, *((-1, -3, -8) if dtype.startswith("int") else ()))
    check_all([dtype], [(dtype, lambda a, i, c=constant: op(a, ops.const(c, dtype))) for constant in constants])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("op", [ops.truncdiv, ops.truncmod, ops.floordiv, ops.floormod])
def test_division_of_loop_variables(dtype: str, op: Callable[..., PrimExpr]) -> None:
    check_all([], [(dtype, lambda i, c=c: op(ops.cast(dtype, i) - 30, ops.const(c, dtype))) for c in (1, 3, 4, 7)])


def test_index_arithmetic_that_overflows_its_type_wraps() -> None:
    check([], "int32", lambda i: ops.floordiv(i * 1_000_000_007, 3))
    check([], "int64", lambda i: ops.cast("int64", i * 1_000_000_007))


@pytest.mark.parametrize("dtype", INTS)
def test_bits(dtype: str) -> None:
    check([dtype, dtype], dtype, lambda a, b, i: (a & b) ^ (a | ~b))
    width = np.dtype(dtype).itemsize * 8
    by = np.arange(COUNT, dtype=dtype) % np.asarray(width, dtype)
    shifts: list[Body] = [lambda a, b, i: a << b, lambda a, b, i: a >> b]
    check_all([dtype, dtype], [(dtype, shift) for shift in shifts], [interesting(dtype, 1), by])
    counts = ("tir.popcount", "tir.clz")
    check_all([dtype], [(dtype, lambda a, i, name=name: intrin.call(name, dtype, a)) for name in counts])


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_comparisons(dtype: str) -> None:
    compared = [("bool", lambda a, b, i, relation=relation: relation(a, b)) for relation in RELATIONS]
    chosen = [(dtype, lambda a, b, i, relation=relation: n.Select(relation(a, b), a, b)) for relation in RELATIONS]
    check_all([dtype, dtype], compared + chosen)


@pytest.mark.parametrize("source", [*INTS, *FLOATS, "bool"])
def test_conversions(source: str) -> None:
    signed = [target for target in (*INTS, *FLOATS, "bool") if not target.startswith("u")]
    unsigned = [target for target in INTS if target.startswith("u")]
    values = np.arange(COUNT) % 3 == 0 if source == "bool" else interesting(source, 5)
    for targets, given in ((signed, values), (unsigned, np.abs(values) if source in FLOATS else values)):
        check_all([source], [(to, lambda a, i, to=to: ops.cast(to, a)) for to in targets], [given])


@pytest.mark.parametrize("dtype", FLOATS)
def test_float_arithmetic(dtype: str) -> None:
    each = (ops.add, ops.sub, ops.mul, ops.minimum, ops.maximum)
    check_all([dtype, dtype], [(dtype, lambda a, b, i, op=op: op(a, b)) for op in each])
    divisor = interesting(dtype, 3)
    divisor[divisor == 0] = 4
    inputs = [interesting(dtype, 2), divisor]
    for kinds, tolerance in (((n.Div, n.FloorDiv), 0.0), ((n.Mod, n.FloorMod), 1e-2)):
        results = [(dtype, lambda a, b, i, kind=kind: kind(a, b)) for kind in kinds]
        check_all([dtype, dtype], results, inputs, tolerance)


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
    check_all(
        [dtype, dtype],
        [
            (dtype, lambda x, y, i, name=name: intrin.call(f"tir.{name}", dtype, x, y))
            for name in ("atan2", "hypot", "copysign", "fmod")
        ],
        [a, b + np.asarray(0.25, dtype)],
        tolerance * 4,
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_classification(dtype: str) -> None:
    values = interesting(dtype, 1)
    values[:3] = [np.inf, -np.inf, np.nan]
    names = ("tir.isnan", "tir.isinf")
    check_all([dtype], [("bool", lambda a, i, name=name: intrin.call(name, "bool", a)) for name in names], [values])


def test_booleans_and_logic() -> None:
    a, b = np.arange(COUNT) % 2 == 0, np.arange(COUNT) % 3 == 0
    check(["bool", "bool"], "bool", lambda x, y, i: ops.logical_or(ops.logical_and(x, ops.logical_not(y)), y), [a, b])
    check(["bool"], "int32", lambda x, i: n.Select(x, i, i - 1), [a])


def test_reinterpret() -> None:
    check(["float32"], "uint32", lambda a, i: intrin.call("tir.reinterpret", "uint32", a))
    check(["int64"], "float64", lambda a, i: intrin.call("tir.reinterpret", "float64", a), [np.arange(COUNT) << 40])


def test_an_expression_of_bfloat16_is_rounded_once() -> None:
    """bfloat16 travels as its bits; what is stored is rounded to nearest even, and so is what is cast."""
    values = np.random.default_rng(0).standard_normal((2, COUNT)).astype(np.float32)
    bits = [(v.view(np.uint32) >> 16).astype(np.uint16) for v in values]
    a, b = ((part.astype(np.uint32) << 16).view(np.float32) for part in bits)
    rounds = {True: (a * b).astype(bfloat16).astype(np.float32), False: a.astype(np.float64) * b}
    for vector, cast in itertools.product((False, True), (False, True)):

        def value(a: Any, b: Any, i: Any, cast: bool = cast) -> Any:
            product = a * b
            return (product.astype("float32").astype("bfloat16") if cast else product) + a

        func = elementwise(["bfloat16", "bfloat16"], "bfloat16", value, vector)
        args = [*bits, np.zeros(COUNT, np.uint16)]
        got = bfloat16_by_machine(func, args)
        np.testing.assert_array_equal(got, outputs_by_interpreter(func, args)[-1])
        np.testing.assert_array_equal(got.view(bfloat16), (rounds[cast] + a).astype(np.float32).astype(bfloat16))


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
