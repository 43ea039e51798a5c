"""Arithmetic of bfloat16 is computed in float32: what is rounded, what stays narrow, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.driver.build import compile_artifact
from compiler.interp.interpreter import run
from compiler.ir.visit import walk
from compiler.lower.loops.bf16_compute_legalize import bf16_compute_legalize
from compiler.runtime.core.dtypes import storage_dtype
from compiler.runtime.core.ndarray import array
from compiler.runtime.load import load_artifact
from compiler.target.target import Target
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin

BF16, HOST = storage_dtype("bfloat16"), Target("llvm").resolved()


def of_two(value: Callable[[Any, Any], Any], dtype: str = "bfloat16") -> n.PrimFunc:
    x, y = placeholder((37,), "bfloat16", "x"), placeholder((37,), "bfloat16", "y")
    return create_prim_func([x, y, compute((37,), lambda i: value(x[i], y[i]).astype(dtype), name="z")])


def casts(func: n.PrimFunc) -> list[str]:
    return [node.dtype for node in walk(bf16_compute_legalize(func).body) if isinstance(node, n.Cast)]


def test_an_expression_is_rounded_where_it_is_stored() -> None:
    assert casts(of_two(lambda a, b: (a + b) * a - b)).count("bfloat16") == 1
    assert casts(of_two(lambda a, b: intrin.erf(a * b) + a)).count("bfloat16") == 1
    assert casts(of_two(lambda a, b: n.Select(a + b < a, a * b, a))).count("bfloat16") == 1


def test_what_is_only_moved_stays_narrow() -> None:
    for value in (lambda a, b: a, lambda a, b: n.Select(ops.less(a, b), a, b)):
        assert "bfloat16" not in casts(of_two(value))
    func = of_two(lambda a, b: a)
    assert bf16_compute_legalize(func).script() == func.script()


def test_what_has_a_name_and_is_only_moved_stays_narrow() -> None:
    """Vectors that are put together, say. A name for arithmetic is wide, and so is what is put together of those."""
    x, y = (n.decl_buffer((size,), "bfloat16", name) for name, size in (("x", 8), ("y", 16)))
    loaded = n.BufferLoad(x, (n.Ramp(ops.const(0), ops.const(1), 8),))
    for value, wide in ((loaded, False), (ops.add(loaded, loaded), True)):
        part, both = n.Var("part", "bfloat16x8"), n.Var("both", "bfloat16x16")
        order = tuple(ops.const(lane // 2 + lane % 2 * 8) for lane in range(16))
        store: n.Stmt = n.BufferStore(y, both, (n.Ramp(ops.const(0), ops.const(1), 16),))
        store = n.LetStmt(part, value, n.LetStmt(both, n.Shuffle((part, part), order), store))
        params = n.Var("a", "handle"), n.Var("b", "handle")
        func = n.PrimFunc(params, store, None, dict(zip(params, (x, y))), {"global_symbol": "main"})
        made = bf16_compute_legalize(func)
        lets = [node.var.dtype for node in walk(made.body) if isinstance(node, n.LetStmt)]
        assert lets == (["float32x8", "float32x16"] if wide else ["bfloat16x8", "bfloat16x16"])
        given, out = np.arange(8, dtype="float32").astype(BF16), np.zeros(16, BF16)
        run(func, given, out)
        assert out.astype("float32").tolist() == np.repeat(given.astype("float32") * (1 + wide), 2).tolist()


def test_functions_without_bfloat16_are_the_same() -> None:
    x = placeholder((4,), name="x")
    func = create_prim_func([x, compute((4,), lambda i: x[i] * 2.0 + 1.0)])
    assert bf16_compute_legalize(func) is func


def test_casts_round() -> None:
    """Also those there and back, which TVM's pass drops."""
    x = np.linspace(1.0, 1.1, 37, dtype="float32").astype(BF16)
    y = np.full(37, 2**-9, "float32").astype(BF16)
    for func, rounded in (
        (of_two(lambda a, b: (a + b).astype("float32").astype("bfloat16") - a), True),
        (of_two(lambda a, b: (a + b) - a), False),
        (of_two(lambda a, b: a + b, "float32"), True),
    ):
        out = np.zeros(37, storage_dtype(func.buffer_map[func.params[2]].dtype))
        run(func, x, y, out)
        assert set(out.astype("float32") - (0 if out.dtype == BF16 else x.astype("float32"))) == (
            {0.0} if rounded else {2.0**-9}
        )


def test_a_bound_name_is_wide() -> None:
    var = n.Var("t", "bfloat16")
    func = of_two(lambda a, b: n.Let(var, a + b, var * var + b))
    (let,) = [node for node in walk(bf16_compute_legalize(func).body) if isinstance(node, n.Let)]
    assert let.var.dtype == "float32"
    assert casts(func).count("bfloat16") == 1


LEAVES = st.sampled_from(["a", "b", "one", "rounded"])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "max", "min", "select"]), inner, inner),
        st.tuples(st.sampled_from(["tanh", "sigmoid", "fabs", "let"]), inner),
    ),
    max_leaves=8,
)
_OPS: dict[str, Callable[..., Any]] = {"add": ops.add, "sub": ops.sub, "mul": ops.mul, "max": n.Max, "min": n.Min}
_EXACT: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "tanh": np.tanh,
    "fabs": np.abs, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip


def built(tree: Any, a: Any, b: Any) -> Any:
    match tree:
        case "a" | "b":
            return a if tree == "a" else b
        case "one":
            return ops.const(0.7071067811865476, "bfloat16")
        case "rounded":
            return ops.cast("bfloat16", ops.cast("float32", a * b))
        case ("select", first, second):
            return n.Select(ops.less(a, b), built(first, a, b), built(second, a, b))
        case ("let", inner):
            var = n.Var("t", "bfloat16")
            return n.Let(var, built(inner, a, b), var * var + a)
        case (name, *parts):
            made = [built(part, a, b) for part in parts]
            return _OPS[name](*made) if name in _OPS else intrin.call(f"tir.{name}", "bfloat16", *made)
    raise AssertionError(tree)


def exact(tree: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """In float64, rounded where the tree is cast."""
    match tree:
        case "a" | "b":
            return a if tree == "a" else b
        case "one":
            return np.full_like(a, np.float32(0.7071067811865476).astype(BF16))
        case "rounded":
            return (a * b).astype("float32").astype(BF16).astype("float64")
        case ("select", first, second):
            return np.where(a < b, exact(first, a, b), exact(second, a, b))
        case ("let", inner):
            return exact(inner, a, b) ** 2 + a
        case (name, *parts):
            return _EXACT[name](*(exact(part, a, b) for part in parts))
    raise AssertionError(tree)


@settings(deadline=None, max_examples=60)
@given(TREES, st.integers(0, 1 << 30))
def test_machine_code_and_interpreter_round_the_exact_result_once(tree: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-2, 2, 37).astype("float32").astype(BF16) for _ in range(2))
    func = of_two(lambda x, y: built(tree, x, y))
    arrays = [array(v) for v in (a, b, np.zeros(37, BF16))]
    load_artifact(compile_artifact(func, HOST, name="main"))["main"](*arrays)
    interpreted = np.zeros(37, BF16)
    run(func, a, b, interpreted)
    true = exact(tree, a.astype("float64"), b.astype("float64"))
    for found in (arrays[2].numpy(), interpreted):  # half of the last digit, and what float32 is off by
        assert (np.abs(found.astype("float64") - true) <= np.abs(true) * 2**-8 * 1.001 + 1e-4).all()
