"""Arenas of random graphs: hardly more than what lives at one time, and nothing is overwritten that is still read.

What lives is found here by a liveness analysis backwards over the module before it is planned.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from compiler.ir.base import Op
from compiler.ir.module import IRModule
from compiler.ir.transform.passes import Sequential
from compiler.relax import op
from compiler.relax.analysis import problems
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import (
    Call,
    If,
    SeqExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
    info_of,
)
from tests.kit.compiler.random_graphs import random_graph
from tests.kit.fuzzing import cases
from tests.property.test_relax_pipeline_random import assert_same
from tunefarm.relax import transform

WIDE = cases(24)
PLAN = transform.StaticPlanBlockMemory()
EXPLICIT = Sequential(
    [
        transform.Normalize(),
        transform.LegalizeOps(),
        transform.ToNonDataflow(),
        transform.RemovePurityChecking(),
        transform.CallTIRRewrite(),
    ]
)


def wide_graph(seed: int) -> IRModule:
    """Up to 60 operators over matrices of 64 rows and very different numbers of columns, with values read late."""
    rng = random.Random(seed)
    bb = BlockBuilder()
    widths = rng.sample([1, 2, 3, 5, 8, 16, 24, 40, 64, 100, 160, 256], 5)
    params = [Var("x", TensorStructInfo((64, widths[0]), "float32"))]
    weights: dict[tuple[int, int], Var] = {}
    for a in widths:
        for b in widths:
            weights[a, b] = Var(f"w{a}_{b}", TensorStructInfo((a, b), "float32"))
    flag = Var("c", TensorStructInfo((), "bool"))
    with bb.function("main", [*params, *weights.values(), flag]):
        values: list[Any] = [params[0]]
        for _ in range(rng.randrange(5, 61)):
            a = rng.choice(values[-rng.choice((1, 2, 4, 30)) :])
            columns = int(a.struct_info.dims[1].value)
            same = [value for value in values if value.struct_info.dims[1].value == columns]
            kind = rng.randrange(7)
            if kind < 3:
                values.append(bb.emit(op.matmul(a, weights[columns, rng.choice(widths)])))
            elif kind == 3:
                values.append(bb.emit(op.add(a, rng.choice(same))))
            elif kind == 4:
                parts = bb.emit(op.split(a, 2, axis=0))
                both = [bb.emit(TupleGetItem(parts, index)) for index in (1, 0)]
                values.append(bb.emit(op.concat(both, axis=0)))
            elif kind == 5:
                values.append(bb.emit(op.reshape(bb.emit(op.tanh(a)), (64, columns))))
            else:
                other = rng.choice(same)
                yes, no = SeqExpr((), op.negative(op.exp(a))), SeqExpr((), op.multiply(a, op.tanh(other)))
                values.append(bb.emit(If(flag, yes, no)))
        bb.emit_func_output(values[-1] if rng.random() < 0.5 else Tuple(tuple(values[-2:])))
    return bb.get()


def in_order(seq: SeqExpr) -> list[tuple[Any, Any]]:
    """The bindings of a function, those of branches where the condition stands; a condition gives what both do."""
    found: list[tuple[Any, Any]] = []
    for block in seq.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, If):
                yes, no = binding.value.true_branch, binding.value.false_branch
                found += [*in_order(yes), *in_order(no), (binding.var, (yes.body, no.body))]
            else:
                found.append((binding.var, binding.value))
    return found


def largest_sum(mod: IRModule) -> int:
    """The largest sum of bytes of arrays, each in steps of 64, that are written or will be read; results left out."""
    body: Any = mod["main"].body  # type: ignore[attr-defined]
    bindings = in_order(body)
    arrays: dict[Any, int] = {}
    fields: dict[Any, list[set[Any]]] = {}
    behind: dict[Any, set[Any]] = {}

    def origins(expr: Any) -> set[Any]:
        if isinstance(expr, Tuple | tuple):
            return set().union(*map(origins, getattr(expr, "fields", expr)))
        if isinstance(expr, TupleGetItem) and expr.tuple_value in fields:
            return fields[expr.tuple_value][expr.index]
        if isinstance(expr, TupleGetItem):
            return origins(expr.tuple_value)
        return behind.get(expr, set())

    for var, value in bindings:
        name = value.op.name if isinstance(value, Call) and isinstance(value.op, Op) else ""
        if name == "relax.builtin.alloc_tensor":
            info: Any = info_of(value)
            size = 4
            for extent in info.dims:
                size *= extent.value
            arrays[var], behind[var] = -(-size // 64) * 64, {var}
        elif isinstance(value, Call):
            behind[var] = origins(value.args[0]) if name == "relax.reshape" else set()
        else:
            behind[var] = origins(value)
            if isinstance(value, Tuple):
                fields[var] = [origins(item) for item in value.fields]
    kept = origins(body.body)
    live: set[Any] = set()
    most = 0
    for var, value in reversed(bindings):
        if var in arrays:
            live.discard(var)
        elif isinstance(value, Call) and not isinstance(value.op, Op):
            live |= set().union(*map(origins, value.args))
            most = max(most, sum(arrays[array] for array in live - kept))
    return most


def arena_size(mod: IRModule) -> int:
    body: Any = mod["main"].body  # type: ignore[attr-defined]
    total = 0
    for _, value in in_order(body):
        if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "relax.memory.alloc_storage":
            total += value.args[0].values[0].value  # type: ignore[attr-defined]
    return total


@pytest.mark.parametrize("seed", range(WIDE))
def test_an_arena_is_hardly_larger_than_what_lives_at_one_time(seed: int) -> None:
    explicit = EXPLICIT(wide_graph(seed))
    planned = PLAN(explicit)
    assert problems(planned) == []
    assert arena_size(planned) <= 1.1 * largest_sum(explicit)


@pytest.mark.parametrize("seed", range(12))
def test_planned_graphs_compute_what_they_did(seed: int) -> None:
    graph = random_graph(seed, 14, symbolic=seed % 2 == 0)
    module = graph.module
    if seed % 4 == 0:
        main = module["main"].with_attr("tir_var_upper_bound", {"n": 5})
        module = module.with_functions({module.get_global_var("main"): main})
    explicit = EXPLICIT(module)
    planned = PLAN(explicit)
    assert problems(planned) == []
    assert_same(run(planned, *graph.args), run(explicit, *graph.args), "StaticPlanBlockMemory")
    lowered = transform.KillAfterLastUse()(transform.LowerAllocTensor()(planned))
    assert problems(lowered) == []
    assert_same(run(lowered, *graph.args), run(explicit, *graph.args), "KillAfterLastUse")
