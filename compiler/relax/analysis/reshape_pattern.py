"""Kernels that only copy memory as it lies."""

from __future__ import annotations

from compiler.arith.analyzer import Analyzer
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


def has_reshape_pattern(func: n.PrimFunc) -> bool:
    """Return whether `func` copies all of its first array to its last, in the order of memory."""
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    stores = [node for node in walk(func.body) if isinstance(node, n.BufferStore)]
    blocks = [node for node in walk(func.body) if isinstance(node, n.Block) and node.iter_vars]
    if len(buffers) != 2 or len(stores) != 1 or len(blocks) != 1:
        return False
    store, (source, target) = stores[0], buffers
    load = store.value
    if not isinstance(load, n.BufferLoad) or load.buffer is not source or store.buffer is not target:
        return False
    analyzer = Analyzer()
    if not analyzer.can_prove_equal(_count(source), _count(target)):
        return False  # the first rows of an array, for instance
    for axis in blocks[0].iter_vars:
        if axis.dom is None or axis.iter_type is not n.IterType.DATA_PAR:
            return False
        analyzer.bind(axis.var, axis.dom)
    return analyzer.can_prove_equal(_flat(source, load.indices), _flat(target, store.indices))


def _count(buffer: n.Buffer) -> PrimExpr:
    """How many elements an array has."""
    total: PrimExpr = ops.const(1)
    for size in buffer.shape:
        total = total * size
    return total


def _flat(buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """Where an element lies in a compact array."""
    total: PrimExpr = ops.const(0)
    for index, size in zip(indices, buffer.shape):
        total = total * size + index
    return total
