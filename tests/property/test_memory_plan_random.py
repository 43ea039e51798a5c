"""Arenas of random graphs: hardly more than what lives at one time, and nothing is overwritten that is still read.

What lives is found by a liveness analysis of the tests (`tests/kit/compiler/memory_bounds.py`).
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from compiler.ir.module import IRModule
from compiler.relax import op
from compiler.relax.analysis import problems
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.interp import run
from compiler.relax.nodes import If, SeqExpr, TensorStructInfo, Tuple, TupleGetItem, Var
from tests.kit.compiler.memory_bounds import EXPLICIT, FUSED, PLAN, arena_size, largest_sum
from tests.kit.compiler.model_graphs import transformer
from tests.kit.compiler.random_graphs import random_graph
from tests.kit.fuzzing import cases
from tests.property.test_relax_pipeline_random import assert_same
from tunefarm.relax import transform

WIDE = cases(24)


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


@pytest.mark.parametrize("seed", range(WIDE))
def test_an_arena_is_hardly_larger_than_what_lives_at_one_time(seed: int) -> None:
    explicit = (FUSED if seed % 2 else EXPLICIT)(wide_graph(seed))
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


def test_an_arena_of_a_small_transformer() -> None:
    """`make test-models` has ResNet-50, MobileNet and twelve layers."""
    explicit = FUSED(transformer(2, length=16, width=32, heads=2))
    planned = PLAN(explicit)
    assert problems(planned) == []
    assert 0 < arena_size(planned) <= 1.1 * largest_sum(explicit)
