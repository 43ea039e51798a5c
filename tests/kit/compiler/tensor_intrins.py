"""Tensor intrinsics that tests of tensorize share."""

from __future__ import annotations

from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.state import realize_at
from compiler.tir.intrin.tensor_intrin import TensorIntrin
from compiler.tir.nodes import PrimFunc
from tests.kit.compiler.schedules import workloads as w


def update_only(func: PrimFunc) -> PrimFunc:
    """`func`, a single reduction, without its init."""
    [_, path] = tree.block_paths(func.body)
    block = realize_at(path).block
    update = replace(block, init=None, reads=(*block.writes, *block.reads))
    return func.with_body(tree.replace_at(path, tree.with_block(realize_at(path), update)))


def register_matmul(m: int, n: int, k: int) -> str:
    """An intrinsic that adds a product of tiles, with its columns in vector lanes; its name."""
    name = f"test.matmul_{m}x{n}x{k}"
    desc = update_only(w.matmul(m, n, k))
    sch = Schedule(desc)
    i, j, r = sch.get_loops(sch.get_block("C"))
    sch.reorder(r, i, j)
    sch.vectorize(j)
    TensorIntrin.register(name, desc, sch.func, override=True)
    return name
