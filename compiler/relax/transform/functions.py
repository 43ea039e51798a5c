"""Functions made of parts that are not in normal form yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.ir.base import RelaxExpr, Span
from compiler.ir.module import IRModule
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import Binding, BindingBlock, Function, ObjectStructInfo, SeqExpr, Var
from compiler.relax.normalize import merged


def make_function(
    mod: IRModule | None, params: list[Var] | tuple[Var, ...], body: SeqExpr, is_pure: bool = True,
    attrs: Mapping[str, Any] | None = None, span: Span | None = None,
) -> Function:  # fmt: skip
    """A function in normal form; what it returns follows from its body.
    `mod` has the functions that it calls."""
    known = Function(params, body, ObjectStructInfo(), is_pure, attrs, span)
    normal = BlockBuilder(mod).normal_function(known)
    return Function(params, normal.body, None, is_pure, attrs, span)


def with_signature(
    mod: IRModule,
    func: Function,
    params: list[Var] | tuple[Var, ...],
    first: Sequence[Binding] = (),
    body: RelaxExpr | None = None,
) -> Function:
    """`func` with other parameters, with bindings put before its body, or with another result."""
    blocks = func.body.blocks if not first else merged([BindingBlock(tuple(first)), *func.body.blocks])
    seq = SeqExpr(blocks, func.body.body if body is None else body, func.body.span)
    return make_function(mod, params, seq, func.is_pure, func.attrs, func.span)
