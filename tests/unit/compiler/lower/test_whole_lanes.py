"""Sums of small arrays lose their masks where nobody looks at the other lanes, and keep them elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.driver.pipeline import lower_func
from compiler.ir.visit import walk
from compiler.lower.loops.whole_lanes import whole_lanes
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import Allocate, BufferLoad, BufferStore, ForKind, PrimFunc
from compiler.tir.visit import seq
from tests.kit.compiler.lowering_hand import buffer, function, loop, same, stores
from tests.kit.compiler.narrow.products import product
from tests.kit.tuner.sketch_points import at_point
from tuner.space.generate import generate


def ramp(base: Any) -> n.Ramp:
    return n.Ramp(ops.as_expr(base), n.IntImm("int32", 1), 8)


def below(base: Any, limit: int) -> n.PrimExpr:
    return n.LT(ramp(base), n.Broadcast(n.IntImm("int32", limit), 8))


def edge(read_mask: int | None, scope: str = "local", limit: int = 13) -> PrimFunc:
    """Columns added up in an array of two vectors, of which `limit` elements count; written as far as `read_mask`."""
    a, out = buffer("a", 80), buffer("out", 16)
    acc = buffer("acc", 16, scope=scope)
    i, j, k, w = (n.Var(name) for name in "ijkw")
    zero = n.Broadcast(n.FloatImm("float32", 0.0), 8)
    taken = BufferLoad(a, (ramp(ops.add(ops.mul(k, 16), ops.mul(j, 8))),), below(ops.mul(j, 8), limit))
    summed = ops.add(BufferLoad(acc, (ramp(ops.mul(j, 8)),), below(ops.mul(j, 8), limit)), taken)
    written = None if read_mask is None else below(ops.mul(w, 8), read_mask)
    body = seq(
        loop(i, 2, BufferStore(acc, zero, (ramp(ops.mul(i, 8)),), below(ops.mul(i, 8), limit)), ForKind.UNROLLED),
        loop(k, 5, loop(j, 2, BufferStore(acc, summed, (ramp(ops.mul(j, 8)),), below(ops.mul(j, 8), limit)))),
        loop(w, 2, BufferStore(out, BufferLoad(acc, (ramp(ops.mul(w, 8)),), written), (ramp(ops.mul(w, 8)),), written)),
    )
    size = (n.IntImm("int32", 16),)
    return function([a, out], Allocate(acc.data, "float32", size, n.IntImm("bool", 1), body, scope))


def masked(func: PrimFunc, name: str) -> list[bool]:
    return [store.predicate is not None for store in stores(func) if store.buffer.name == name]


def test_sums_at_the_edge_are_computed_in_all_lanes() -> None:
    func = edge(13)
    changed = same(func, whole_lanes)
    assert masked(func, "acc") == [True, True]
    assert masked(changed, "acc") == [False, False]
    assert masked(changed, "out") == [True]  # memory is still written in the lanes that count only
    reads = [node.predicate for node in walk(changed.body) if isinstance(node, BufferLoad) and node.buffer.name == "a"]
    assert all(mask is not None for mask in reads)


@pytest.mark.parametrize("read", [None, 12])
def test_lanes_that_are_looked_at_stay_masked(read: int | None) -> None:
    assert masked(whole_lanes(edge(read)), "acc") == [True, True]


def test_memory_of_others_stays_masked() -> None:
    assert masked(whole_lanes(edge(13, scope="global")), "acc") == [True, True]


def test_the_edge_of_a_product_has_no_choices_in_its_sum() -> None:
    func = product((6, 29, 5), "float32", "float32", "float32")
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=1")
    [sketch] = [s for s in generate(func, target) if s.name == "panels+pack"]
    wanted = {"rows": 3, "vectors": 2}
    point = [d.values.index(wanted.get(d.name, d.values[0])) for d in sketch.decisions]
    lowered = lower_func(at_point(func, sketch, point), 512)
    sums = [s for s in stores(lowered) if s.buffer.scope == "local"]
    assert sums
    assert not [s for s in sums if s.predicate is not None]
