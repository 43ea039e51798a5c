"""Lowering: from scheduled blocks to loops over one-dimensional buffers. This file is its table of contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from compiler.lower.check_bounds import check_bounds
from compiler.lower.compact_buffers import compact_buffers
from compiler.lower.convert_blocks import convert_blocks
from compiler.lower.flatten_buffers import flatten_buffers
from compiler.lower.hoist_guards import hoist_guards
from compiler.lower.lower_allocations import lower_allocations
from compiler.lower.lower_init import lower_init
from compiler.lower.nested_parallel import serialize_nested_parallel
from compiler.lower.partition_loops import partition_loops
from compiler.lower.plan_allocation import plan_allocation
from compiler.lower.simplify import simplify
from compiler.lower.split_tails import split_tails
from compiler.lower.unroll import unroll
from compiler.lower.vectorize import vectorize
from compiler.tir import nodes as n
from compiler.tir.verify import Stage
from compiler.tir.visit import walk


@dataclass(frozen=True, slots=True)
class Pass:
    """One step of lowering. `stage` says which rules of `compiler.tir.verify` hold of its result."""

    name: str
    run: Callable[[n.PrimFunc], n.PrimFunc]
    stage: Stage | None = None


def passes(vector_bits: int = 256, *, simple: bool = False) -> list[Pass]:
    """The passes in order. `simple` leaves out those that only make code faster."""
    blocks = [
        Pass("check_bounds", check_bounds),
        Pass("lower_init", lower_init, Stage.BLOCKS),
        Pass("plan_allocation", plan_allocation),
        Pass("convert_blocks", convert_blocks),
        Pass("compact_buffers", compact_buffers),
        Pass("lower_allocations", lower_allocations, Stage.LOOPS),
    ]
    loops = [
        Pass("flatten_buffers", flatten_buffers, Stage.FLAT),
        Pass("simplify", simplify, Stage.FLAT),
        Pass("serialize_nested_parallel", serialize_nested_parallel, Stage.FLAT),
    ]
    tiles = [
        Pass("split_tails", split_tails, Stage.FLAT),
        Pass("hoist_guards", hoist_guards, Stage.FLAT),
        Pass("partition_loops", partition_loops, Stage.FLAT),
        Pass("simplify_tiles", simplify, Stage.FLAT),
    ]
    last = [
        Pass("vectorize", partial(vectorize, vector_bits=vector_bits), Stage.LOWERED),
        Pass("unroll", partial(unroll, vector_bits=vector_bits), Stage.LOWERED),
    ]
    return [*blocks, *loops, *([] if simple else tiles), *last]


def stages(func: n.PrimFunc, vector_bits: int = 256) -> Iterator[tuple[Pass, n.PrimFunc]]:
    """Each pass with the function after it."""
    for step in passes(vector_bits):
        func = step.run(func)
        yield step, func


def lower_func(func: n.PrimFunc, vector_bits: int = 256, *, simple: bool = False) -> n.PrimFunc:
    """`func` ready for code generation. A function that is lowered already comes back as it is.

    `vector_bits`: the width of the vector registers it is meant for. Raises LoweringError.
    """
    if is_lowered(func):
        return func
    for step in passes(vector_bits, simple=simple):
        func = step.run(func)
    return func


def is_lowered(func: n.PrimFunc) -> bool:
    """Whether no pass has anything left to do: no blocks, no vectorized loops, flat buffers only."""
    if isinstance(func.body, n.BlockRealize):
        return False
    for node in walk(func.body):
        match node:
            case n.BlockRealize():
                return False
            case n.For() if node.kind is n.ForKind.VECTORIZED:
                return False
            case n.BufferLoad() | n.BufferStore():
                if len(node.indices) != 1 or node.buffer.strides or node.buffer.elem_offset is not None:
                    return False
            case _:
                pass
    return True
