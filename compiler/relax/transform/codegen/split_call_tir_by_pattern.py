"""Kernels whose first blocks a library computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import ArgumentError, IRError
from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.kernel_pattern import BlockNest, is_unscheduled, nests_of
from compiler.relax.fusion.parts import kernel_of, reads_of
from compiler.relax.nodes import Call, TensorStructInfo, Tuple
from compiler.relax.op.execution.calls import call_dps_packed, call_tir
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr
from compiler.tir.text.print_func import nameless_text

_WIDE = re.compile(r"T\.int64\((-?\d+)\)")


@dataclass(frozen=True, eq=False, slots=True)
class MatchResult:
    """A block that matches a pattern.

    `symbol_values` are the values of the pattern's symbolic sizes, in the order in which its parameters name them.
    `matched_buffers` are the kernel's arrays in the order of the pattern's parameters.
    """

    pattern: n.PrimFunc
    symbol_values: tuple[PrimExpr, ...]
    matched_buffers: tuple[n.Buffer, ...]


Split = tuple[str | n.PrimFunc, int]
SplitCodegen = Callable[[list[MatchResult]], Split | None]


@relax_pass("SplitCallTIRByPattern")
def split_call_tir_by_pattern(
    mod: IRModule, context: PassContext, *, patterns: Sequence[n.PrimFunc], fcodegen: SplitCodegen
) -> IRModule:
    """Compute the first blocks of kernels by other code where they match patterns.

        lv = call_tir(cls.matmul_relu, (x, w))    →    lv = call_dps_packed("library_matmul", (x, w))
                                                       lv1 = call_tir(cls.matmul_relu_rest, (lv,))

    A pattern is a kernel of one block; its sizes may be symbolic. `fcodegen` gets the matches of the first blocks, in
    order. It returns None to leave the kernel, or code and how many of the blocks it computes. Code is the name of a
    packed function or a kernel. Both take what these blocks read and do not make, in the order of the blocks' loads,
    then the result of the last of them. The other blocks may read no other result of theirs.
    """
    known = [_Pattern.of(pattern) for pattern in patterns]
    return rewritten(mod, lambda own: _Splitter(own, known, fcodegen))


@dataclass(frozen=True, slots=True)
class _Pattern:
    func: n.PrimFunc
    nest: BlockNest

    @staticmethod
    def of(func: object) -> _Pattern:
        nests = nests_of(func) if isinstance(func, n.PrimFunc) else None
        if not isinstance(func, n.PrimFunc) or nests is None or len(nests) != 1 or len(nests[0].block.writes) != 1:
            raise ArgumentError("a pattern of blocks must be a kernel of one block that writes one array")
        return _Pattern(func, nests[0])

    def matched(self, nest: BlockNest, whole: n.PrimFunc) -> MatchResult | None:
        """Return what the pattern stands for in a nest of the kernel `whole`; None for another nest."""
        own = [*reads_of(self.nest), self.nest.block.writes[0].buffer]
        theirs = [*reads_of(nest), nest.block.writes[0].buffer]
        if len(own) != len(theirs):
            return None
        given = dict(zip(own, theirs))
        params = [param for param in self.func.params if self.func.buffer_map.get(param) in given]
        buffers = tuple([given[self.func.buffer_map[param]] for param in params])
        try:
            same = self.func.specialize(dict(zip(params, buffers)))
        except IRError:
            return None
        nests = nests_of(same)
        if nests is None or _shape_of(kernel_of(nests, same)) != _shape_of(kernel_of([nest], whole)):
            return None
        symbols: dict[n.Var, PrimExpr] = {}
        for param, buffer in zip(params, buffers):
            for size, value in zip(self.func.buffer_map[param].shape, buffer.shape):
                if isinstance(size, n.Var):
                    symbols.setdefault(size, value)
        return MatchResult(self.func, tuple(symbols.values()), buffers)


class _Splitter(PyExprMutator):
    def __init__(self, mod: IRModule, patterns: Sequence[_Pattern], codegen: SplitCodegen) -> None:
        super().__init__(mod)
        self._module = mod
        self._patterns = patterns
        self._codegen = codegen

    def visit_call_(self, op: Call) -> Any:
        call: Any = super().visit_call_(op)
        if not isinstance(call.op, Op) or call.op.name != "relax.call_tir" or len(call.args) != 2:
            return call
        func = self._module.get(call.args[0])
        nests = nests_of(func) if isinstance(func, n.PrimFunc) else None
        if not isinstance(func, n.PrimFunc) or nests is None or not isinstance(call.args[1], Tuple):
            return call
        sizes = [size for buffer in func.buffer_map.values() for size in buffer.shape]
        if not all(map(is_unscheduled, nests)) or not all(isinstance(size, n.IntImm) for size in sizes):
            return call
        return self._split(call, func, nests) or call

    def _split(self, call: Call, func: n.PrimFunc, nests: Sequence[BlockNest]) -> Any:
        found: list[MatchResult] = []
        for nest in nests:
            made = next((m for pattern in self._patterns if (m := pattern.matched(nest, func)) is not None), None)
            if made is None:
                break
            found.append(made)
        answer = self._codegen(found) if found else None
        if answer is None:
            return None
        code, count = answer
        if not 0 < count <= len(found):
            raise ArgumentError(f"{count} of {len(found)} matched blocks are to be computed by other code")
        first, rest = kernel_of(nests[:count], func), nests[count:]
        result = nests[count - 1].block.writes[0].buffer
        hidden = {nest.block.writes[0].buffer for nest in nests[: count - 1]}
        outs = [buffer for buffer in func.buffer_map.values() if any(buffer in _written(nest) for nest in nests)]
        if len(outs) != 1 or hidden & {outs[0], *(buffer for nest in rest for buffer in reads_of(nest))}:
            return None
        args = call.args[1].fields  # type: ignore[attr-defined]
        arrays = dict(zip([func.buffer_map[param] for param in func.params], args))
        info = TensorStructInfo(result.shape, result.dtype)  # type: ignore[arg-type]
        given = [arrays[buffer] for buffer in _inputs(first)]
        if isinstance(code, str):
            value: Any = call_dps_packed(code, given, info)
        else:
            value = call_tir(self.builder_.add_func(code, "library"), given, info)
        if not rest:
            return value
        arrays[result] = self.builder_.emit(value)
        other = kernel_of(rest, func)
        assert isinstance(call.args[0], GlobalVar)
        name = self.builder_.add_func(other, f"{call.args[0].name_hint}_rest")
        return call_tir(name, [arrays[buffer] for buffer in _inputs(other)], call.sinfo_args[0])


def _shape_of(func: n.PrimFunc) -> tuple[object, ...]:
    """Return a key that is equal for kernels that differ only in names and in the type of their indices.

    The type counts if integers are converted, because they may be no indices.
    """
    text = nameless_text(func)
    if not any(isinstance(node, n.Cast) for node in walk(func.body)):
        text = _WIDE.sub(r"\1", text)
    return text, [buffer.dtype for buffer in func.buffer_map.values()]


def _written(nest: BlockNest) -> set[n.Buffer]:
    return {region.buffer for region in nest.block.writes}


def _inputs(func: n.PrimFunc) -> list[n.Buffer]:
    return [func.buffer_map[param] for param in func.params][:-1]
