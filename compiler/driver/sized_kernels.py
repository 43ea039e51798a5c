"""Several kernels for one function of a graph, and the function that chooses among them at run time.

A graph calls a function by its name. The function of that name looks at the sizes and calls one of the kernels. That is
one of constant sizes, one for any size, or the function as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.codegen.llvm.module import written_buffers
from compiler.errors import CodegenError
from compiler.ir.base import GlobalVar
from compiler.lower.blocks.shape_vars import shape_vars
from compiler.python_text import parsed_expression
from compiler.size_rule import SizeRule, SizeTest, Tree
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import FLOPS, WRITTEN
from compiler.tir.nodes import PrimExpr, Stmt

_MOST = (1 << 31) - 1
"""The largest size of a kernel whose indices are int32."""


@dataclass(frozen=True)
class SizedKernels:
    """Scheduled `kernels` of a function, for constant sizes or for any, and the `rule` that picks one.
    The kernels take the function's arrays in its order. The rule picks by place; a pick that is no place is the
    function itself. `order` says for each symbol of the rule which of the function's sizes it is."""

    kernels: tuple[n.PrimFunc, ...]
    rule: SizeRule
    order: tuple[int, ...]


def with_sized_kernels(
    kernels: Mapping[GlobalVar, n.PrimFunc], sized: Mapping[GlobalVar, SizedKernels]
) -> dict[GlobalVar, n.PrimFunc]:
    """The functions of a module with those of `sized` beside them.
    Raises CodegenError where they do not fit."""
    made = dict(kernels)
    for name, found in sized.items():
        func = kernels.get(name)
        if func is None or not all(_fits(func, kernel) for kernel in found.kernels):
            continue
        taken = {other.name_hint for other in made}
        labels = [f"{name.name_hint}_sized_{at}" for at in range(len(found.kernels))]
        plain = f"{name.name_hint}_any_size"
        if taken & {*labels, plain}:
            continue
        names = [GlobalVar(label) for label in labels]
        made |= dict(zip(names, found.kernels, strict=True))
        made[GlobalVar(plain)] = func
        made[name] = _Writer(func, found, names, GlobalVar(plain)).function()
    return made


def _fits(func: n.PrimFunc, kernel: n.PrimFunc) -> bool:
    own, other = ([f.buffer_map.get(param) for param in f.params] for f in (func, kernel))
    facts = [[b and (b.dtype, len(b.shape)) for b in buffers] for buffers in (own, other)]
    return facts[0] == facts[1] and None not in own


class _Writer:
    """Writes the function that jumps."""

    def __init__(self, func: n.PrimFunc, sized: SizedKernels, names: Sequence[GlobalVar], plain: GlobalVar) -> None:
        self._func, self._sized, self._names, self._plain = func, sized, names, plain
        self._vars = [found.var for found in shape_vars(func)]
        given = (ops.cast("int64", self._vars[at]) for at in sized.order)
        self._sizes: dict[str, PrimExpr] = dict(zip(sized.rule.symbols, given, strict=True))

    def function(self) -> n.PrimFunc:
        body = self._tree(self._sized.rule.tree)
        for size, pick in self._sized.rule.known.items():
            same = [ops.equal(self._sizes[s], _number(e)) for s, e in zip(self._sized.rule.symbols, size, strict=True)]
            body = n.IfThenElse(ops.logical_and(*same), self._call(pick), body)
        fits = [
            ops.logical_and(ops.greater(v, _number(0)), ops.less_equal(v, _number(_MOST))) for v in self._sizes.values()
        ]
        body = n.IfThenElse(ops.logical_and(*fits), body, self._call(-1))
        func = self._func
        stored = written_buffers(func)
        written = tuple(at for at, p in enumerate(func.params) if func.buffer_map[p].data in stored)
        kept = {name: func.attrs[name] for name in (FLOPS, "tir.noalias", "global_symbol") if name in func.attrs}
        return n.PrimFunc(func.params, body, None, func.buffer_map, {**kept, WRITTEN: written})

    def _tree(self, tree: Tree) -> Stmt:
        if not isinstance(tree, SizeTest):
            return self._call(tree)
        value = _value(parsed_expression(tree.value), self._sizes)
        low, high = self._tree(tree.low), self._tree(tree.high)
        return n.IfThenElse(ops.less_equal(value, _number(tree.limit)), low, high)

    def _call(self, pick: int) -> Stmt:
        """Call a kernel with the arrays, then its sizes."""
        known = 0 <= pick < len(self._names)
        kernel = self._sized.kernels[pick] if known else self._func
        arrays = [self._func.buffer_map[param].data for param in self._func.params]
        implicit = [ops.cast(found.var.dtype, v) for found, v in zip(shape_vars(kernel), self._vars)]
        name = self._names[pick] if known else self._plain
        return n.Evaluate(n.Call("int32", name, (*arrays, *implicit)))


def _number(value: int) -> PrimExpr:
    return n.IntImm("int64", value)


def _value(node: ast.expr, sizes: Mapping[str, PrimExpr]) -> PrimExpr:
    match node:
        case ast.Constant(value=int(value)):
            return _number(value)
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left, ast.Add(), right):
            return ops.add(_value(left, sizes), _value(right, sizes))
        case ast.BinOp(left, ast.Mult(), right):
            return ops.mul(_value(left, sizes), _value(right, sizes))
        case ast.BinOp(left, ast.FloorDiv(), right):
            return ops.floordiv(_value(left, sizes), _value(right, sizes))
        case ast.BinOp(left, ast.Mod(), right):
            return ops.floormod(_value(left, sizes), _value(right, sizes))
    raise CodegenError(f"a rule tests {ast.unparse(node)}, for which there is no code", hint="they have +, *, // and %")
