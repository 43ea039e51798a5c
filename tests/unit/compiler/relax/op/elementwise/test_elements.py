"""Elementwise operators, reductions, sorting and search: StructInfo, kernels and numpy agree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compiler.relax import op
from tests.kit.compiler.relax_ops import SIZES, WITHOUT_ZERO, Case, check
from tests.kit.compiler.topi import FLOATS

NUMBERS = ("float32", "float16", "bfloat16", "float64", "int32", "int8", "uint8", "int64")
SOME = ("float32", "float64", "int32")
SAME = ["n m", "n m"]


def wide(function):
    """In float64, where a result of the element type itself would be rounded on the way."""
    return lambda *a: function(*(x.astype("float64") if x.dtype.kind not in "iub" else x for x in a))


def positive(a: np.ndarray) -> np.ndarray:
    return np.abs(a) + np.asarray(1, a.dtype)


def inside(a: np.ndarray) -> np.ndarray:
    return np.tanh(a.astype("float64")) * 0.9


UNARY = [
    Case(name, getattr(op, name), wide(function), ["n m"], NUMBERS)
    for name, function in {
        "abs": np.abs, "negative": np.negative, "square": np.square, "sign": np.sign, "ceil": np.ceil,
        "floor": np.floor, "round": np.round, "trunc": np.trunc, "logical_not": np.logical_not,
        "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan,
    }.items()
] + [
    Case(name, getattr(op, name), wide(function), ["n m"], FLOATS, values={0: change} if change else {}, tolerance=1e-5)
    for name, function, change in [
        ("acos", np.arccos, inside), ("acosh", np.arccosh, positive), ("asin", np.arcsin, inside),
        ("asinh", np.arcsinh, None), ("atan", np.arctan, None), ("atanh", np.arctanh, inside), ("cos", np.cos, None),
        ("cosh", np.cosh, None), ("sin", np.sin, None), ("sinh", np.sinh, None), ("tan", np.tan, inside),
        ("tanh", np.tanh, None), ("exp", np.exp, None), ("log", np.log, positive), ("sqrt", np.sqrt, positive),
        ("rsqrt", lambda a: 1 / np.sqrt(a), positive), ("sigmoid", lambda a: 1 / (1 + np.exp(-a)), None),
        ("erf", np.vectorize(math.erf, otypes=["float64"]), None),
    ]
]  # fmt: skip

BINARY = [  # how shapes are joined is no matter of the element type
    Case(name, getattr(op, name), wide(function), shapes, dtypes if shapes == SAME else dtypes[:1],
         values={1: change} if change else {})
    for name, function, dtypes, change in [
        ("add", np.add, NUMBERS, None), ("subtract", np.subtract, SOME, None), ("multiply", np.multiply, SOME, None),
        ("divide", np.divide, FLOATS, positive),
        ("floor_divide", np.floor_divide, ("int32", "int8", "float64"), positive),
        ("floor_mod", np.mod, ("int32", "uint8", "float64"), positive), ("mod", np.mod, ("int32",), positive),
        ("maximum", np.maximum, SOME, None), ("minimum", np.minimum, SOME, None),
        ("atan2", np.arctan2, FLOATS, None),
        ("log_add_exp", np.logaddexp, ("float32", "float64"), None),
        ("equal", np.equal, SOME, None), ("not_equal", np.not_equal, SOME, None), ("less", np.less, SOME, None),
        ("less_equal", np.less_equal, SOME, None), ("greater", np.greater, SOME, None),
        ("greater_equal", np.greater_equal, SOME, None),
        ("logical_and", np.logical_and, ("bool", "int32"), None), ("logical_or", np.logical_or, ("bool",), None),
        ("logical_xor", np.logical_xor, ("bool",), None),
        ("bitwise_and", np.bitwise_and, ("int32", "uint8", "bool"), None),
        ("bitwise_or", np.bitwise_or, ("int64", "bool"), None),
        ("bitwise_xor", np.bitwise_xor, ("int32", "bool"), None),
        ("left_shift", np.left_shift, ("int32",), lambda a: np.abs(a) % 5),
        ("right_shift", np.right_shift, ("int32",), lambda a: np.abs(a) % 5),
    ]
    for shapes in (SAME, ["n 1 m", "k 1"])
]  # fmt: skip

POWERS = [
    Case("power", op.power, np.power, ["n m", "m"], ("float64", "int32"),
         values={0: positive, 1: lambda a: np.abs(a) % 4}, tolerance=1e-5),
]  # fmt: skip

OTHERS = [
    Case("divide of whole numbers", op.divide, lambda a, b: np.trunc(a / b), ["n m", "m"], ("int32", "int8", "int64"),
         unlike=FLOATS, values={1: lambda a: np.where(a == 0, np.array(3, a.dtype), a)}),
    Case("mean of whole numbers", lambda x: op.mean(x, 1), lambda a: np.trunc(a.sum(1) / a.shape[1]), ["n m"],
         ("int32",), unlike=FLOATS, sizes=WITHOUT_ZERO),
    Case("bitwise_not", op.bitwise_not, np.bitwise_not, ["n m"], ("int32", "uint8", "bool")),
    Case("clip", lambda x: op.clip(x, -1, 2), lambda a: np.clip(a, -1, 2), ["n m"], ("float32", "int8", "float16")),
    Case("ewise_fma", op.ewise_fma, lambda a, b, c: a * b + c, ["n m"] * 3, ("float32", "float64", "int32")),
    Case("where", op.where, np.where, ["n m", "k 1 m", "1"], ("float32", "int64", "bool"), fixed={0: "bool"}),
    Case("bucketize", op.bucketize, lambda a, b: np.searchsorted(b, a), ["n m", "k"], ("float32", "int64"),
         values={1: np.sort}),
    Case("bucketize right", lambda a, b: op.bucketize(a, b, True, True), lambda a, b: np.searchsorted(b, a, "right"),
         ["n m", "k"], values={1: np.sort}),
]  # fmt: skip


def reductions() -> list[Case]:
    found = []
    for axis, keep in [(None, False), (1, True), ((0, -1), False), (None, True), (-1, False)]:
        for name, function, dtypes in [
            ("sum", np.sum, ("float32", "int64", "float64")), ("prod", np.prod, ("float64", "int32")),
            ("max", np.max, ("float32", "int8", "bool")), ("min", np.min, ("float16", "int32", "bool")),
            ("mean", np.mean, FLOATS), ("variance", np.var, ("float32", "float16")), ("std", np.std, ("float32",)),
            ("argmax", np.argmax, ("float32", "int32")), ("argmin", np.argmin, ("float32",)),
        ]:  # fmt: skip
            if name.startswith("arg") and isinstance(axis, tuple):
                continue
            sizes = WITHOUT_ZERO if name not in ("sum", "prod") else ()
            found.append(Case(
                f"{name} {axis} {keep}",
                lambda x, name=name, axis=axis, keep=keep: getattr(op, name)(x, axis, keep),
                lambda a, f=function, axis=axis, keep=keep: f(
                    a if a.dtype.kind in "iub" else a.astype("float64"), axis=axis, keepdims=keep
                ),
                ["n m k"], dtypes[:1] if keep or axis == (0, -1) else dtypes, tolerance=1e-4,
                **({"sizes": sizes} if sizes else {}),
            ))  # fmt: skip
    return found


def median_of(a: np.ndarray, axis: int, keep: bool):
    order = np.take(np.argsort(a, axis, kind="stable"), [(a.shape[axis] - 1) // 2], axis)
    both = np.take_along_axis(a, order, axis), order
    return both if keep else tuple(np.squeeze(p, axis) for p in both)


def largest(a: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-a.astype("float64"), 1, kind="stable")[:, :k]
    return np.take_along_axis(a, order, 1), order


SORTS = [
    Case("cumsum", lambda x: op.cumsum(x, 1), lambda a: np.cumsum(a, 1, a.dtype), ["n m"], ("float32", "int32", "int8"),
         unlike=("bool",), tolerance=1e-4),
    Case("cumsum flat", lambda x: op.cumsum(x, dtype="int64", exclusive=True),
         lambda a: np.concatenate([[0], np.cumsum(a)])[: a.size], ["n m"], ("int32", "bool"),
         unlike=FLOATS),
    Case("cumprod", lambda x: op.cumprod(x, 0), lambda a: np.cumprod(a, 0), ["n m"], ("float64",),
         tolerance=1e-4),
    Case("sort", op.sort, np.sort, ["n m"], SOME),
    Case("sort descending", lambda x: op.sort(x, 0, True), lambda a: np.sort(a, 0)[::-1], ["n m"], SOME),
    Case("argsort", lambda x: op.argsort(x, 0), lambda a: np.argsort(a, 0, kind="stable"), ["n m"], SOME),
    Case("topk", lambda x: op.topk(x, 2, 1), lambda a: largest(a, 2), ["n m"], ("float32", "int32"),
         sizes=[{**s, "m": m} for s, m in zip(SIZES, (5, 2, 9, 33))]),
    Case("topk all", lambda x: op.topk(x, 0, 1, "indices", dtype="int64"), lambda a: largest(a, a.shape[1])[1],
         ["n m"]),
    Case("median", lambda x: op.median(x, 1), lambda a: median_of(a, 1, False), ["n m k"], sizes=WITHOUT_ZERO),
    Case("median kept", lambda x: op.median(x, -1, True), lambda a: median_of(a, 2, True), ["n m k"],
         sizes=WITHOUT_ZERO),
    Case("median of all", op.median, lambda a: np.sort(a.ravel())[(a.size - 1) // 2], ["n m"], sizes=WITHOUT_ZERO),
]  # fmt: skip

CASES = [*UNARY, *BINARY, *POWERS, *OTHERS, *reductions(), *SORTS]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_struct_info_kernel_and_numpy_agree(case: Case) -> None:
    check(case)
