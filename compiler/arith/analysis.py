"""Questions about functions and expressions, under TVM's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.arith.access import accesses
from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.ir.module import IRModule
from compiler.ir.structural import structural_equal
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.measure import calculate_workspace_bytes, detect_buffer_access_lca, estimate_tir_flops, verify_memory
from compiler.tir.nodes import PrimExpr, PrimFunc, prim_funcs
from compiler.tir.verify import LoweringStage, verify
from compiler.tir.visit import free_vars

__all__ = [
    "calculate_workspace_bytes", "detect_buffer_access_lca", "estimate_tir_flops", "expr_deep_equal",
    "get_block_access_region", "undefined_vars", "verify_memory", "verify_well_formed",
]  # fmt: skip


def expr_deep_equal(lhs: PrimExpr, rhs: PrimExpr) -> bool:
    """Whether two expressions are the same, node by node, over the same variables. Nothing is simplified."""
    return structural_equal(lhs, rhs)


def undefined_vars(node: Node, defs: Sequence[n.Var] = ()) -> list[n.Var]:
    """Variables used under `node` and defined neither there nor in `defs`, in order of first use.

    The data of a buffer that is read or written counts as used.
    """
    own = {inner.buffer_var for inner in walk(node) if isinstance(inner, n.Allocate)}
    own |= {buffer.data for inner in walk(node) if isinstance(inner, n.Block) for buffer in inner.alloc_buffers}
    free = free_vars(node) - set(defs)
    found: dict[n.Var, None] = {}
    for inner in walk(node):
        if isinstance(inner, n.BufferLoad | n.BufferStore) and inner.buffer.data not in {*own, *defs}:
            found[inner.buffer.data] = None
        elif isinstance(inner, n.Var) and inner in free:
            found[inner] = None
    return list(found)


def verify_well_formed(obj: PrimFunc | IRModule, assert_mode: bool = True) -> bool:
    """Return whether functions keep the rules of scheduled TensorIR, or of loops where no blocks are left.
    See `compiler.tir.verify`. With `assert_mode` the first broken rule is raised as an IRError."""
    for func in prim_funcs(obj).values() if isinstance(obj, IRModule) else [obj]:
        blocks = any(isinstance(node, n.BlockRealize) for node in walk(func.body))
        try:
            verify(func, LoweringStage.BLOCKS if blocks else LoweringStage.LOOPS)
        except IRError:
            if assert_mode:
                raise
            return False
    return True


def get_block_access_region(
    block: n.Block, buffer_var_map: Mapping[n.Var, n.Buffer] | None = None
) -> list[list[n.BufferRegion]]:
    """[reads, writes, opaque accesses] found from the body of `block`.
    The last list is always empty: a buffer is only reached by loads and stores here."""
    reads, writes = accesses(block)
    return [list(reads), list(writes), []]
