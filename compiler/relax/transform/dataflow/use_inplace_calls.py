"""Elementwise kernels write over an argument that nothing reads any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.arith.linear import same_expr
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.analysis.joined_parts import JOINED_PARTS
from compiler.relax.analysis.reshape_pattern import has_reshape_pattern
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes.dims import proven_equal
from compiler.relax.op.core.registry import OPERATORS, OpPatternKind, RefusedPart
from compiler.relax.op.execution.calls import call_tir_inplace
from compiler.relax.te_calls import make_kernel
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.schedule.analysis.dataflow import swap_buffers
from compiler.tir import nodes as n
from compiler.tir.renew import renew_defs

_ELEMENTWISE = (OpPatternKind.ELEMWISE, OpPatternKind.BROADCAST)


@relax_pass("DataflowUseInplaceCalls", opt_level=1)
def dataflow_use_inplace_calls(mod: IRModule, context: PassContext) -> IRModule:
    """Write the results of elementwise kernels and operators into an argument that is not used afterwards.

    lv = R.call_tir(cls.exp, (x,), …)    →    lv = R.call_tir(cls.exp, (x,), …)
    gv = R.call_tir(cls.add, (lv, y), …)      gv = R.call_tir_inplace(cls.add_inplace, (lv, y), [0], …)

    Only in dataflow blocks, and only over arrays that a kernel of the same block has made. The kernel is one block that
    reads the argument at the element it writes, and nowhere else.
    """
    return rewritten(mod, _InPlace)


class _InPlace(PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__(mod)
        self._inplace: dict[tuple[GlobalVar, int], GlobalVar | None] = {}
        self._roots: dict[r.Var, frozenset[int]] = {}
        self._fresh: set[int] = set()
        self._ends: dict[int, int] = {}
        self._position = 0

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        self._roots, self._fresh, self._ends = {}, set(), {}
        self._look_at(block.bindings)
        self._position = -1
        return super().visit_dataflow_block_(block)

    # ------------------------------------------------------------------------- what is alive

    def _look_at(self, bindings: Sequence[r.Binding]) -> None:
        """Track in which arrays variables may lie, which of these the block has made, and the last uses."""
        for position, binding in enumerate(bindings):
            value = binding.value
            used = frozenset().union(*[self._roots_of(node) for node in walk(value) if isinstance(node, r.Var)])
            for root in used:
                self._ends[root] = position
            if isinstance(value, r.Call) and self._makes(value):
                made = frozenset({position})
                self._fresh.add(position)
            else:
                made = used | {position}  # it may be, or hold, what it is made of
            self._roots[binding.var] = made
            if not isinstance(binding.var, r.DataflowVar):
                for root in made:
                    self._ends[root] = len(bindings)

    def _roots_of(self, expr: RelaxExpr) -> frozenset[int]:
        return self._roots.get(expr, frozenset()) if isinstance(expr, r.Var) else frozenset()

    def _makes(self, call: r.Call) -> bool:
        """Whether the result of a call is a new array, and no view."""
        if not isinstance(call.op, Op) or not isinstance(r.info_of(call), r.TensorStructInfo):
            return False
        if call.op.name == "relax.call_tir":
            func = self.builder_.get().get(call.args[0])  # type: ignore[arg-type]
            return isinstance(func, n.PrimFunc) and not (JOINED_PARTS in func.attrs or has_reshape_pattern(func))
        operator = OPERATORS.get(call.op.name)
        kinds = (*_ELEMENTWISE, OpPatternKind.COMM_REDUCE, OpPatternKind.OUT_ELEMWISE_FUSABLE)
        if operator is None or isinstance(operator.te, RefusedPart) or operator.pattern not in kinds:
            return False
        return call.op.name != "relax.astype"

    # ------------------------------------------------------------------------------ bindings

    def visit_binding(self, binding: r.Binding) -> None:
        if self.builder_.current_block_is_dataflow():
            self._position += 1
        super().visit_binding(binding)

    def visit_var_binding_(self, binding: r.VarBinding) -> None:
        value = binding.value
        if self.builder_.current_block_is_dataflow() and isinstance(value, r.Call) and isinstance(value.op, Op):
            made = self._in_place(value)
            if made is not None:
                super().visit_var_binding_(r.VarBinding(binding.var, made, binding.span))
                return
        super().visit_var_binding_(binding)

    def _in_place(self, call: r.Call) -> RelaxExpr | None:
        assert isinstance(call.op, Op)
        info = r.info_of(call)
        operator = OPERATORS.get(call.op.name)
        if not isinstance(info, r.TensorStructInfo) or operator is None:
            return None
        if call.op.name != "relax.call_tir":
            elementwise = operator.pattern in _ELEMENTWISE and not isinstance(operator.te, RefusedPart)
            infos = map(r.info_of, call.args)
            known = all(isinstance(item, r.TensorStructInfo) and item.dims is not None for item in infos)
            if not elementwise or not known or not self._candidates(call.args, info):
                return None
            kernel = make_kernel(operator.te, call.args, call.attrs, operator.short_name)  # type: ignore[arg-type]
            found = self._index(kernel.func, self._candidates(kernel.args, info))
            if found is None:
                return None
            gvar = self.builder_.add_func(_over(kernel.func, found), f"{operator.short_name}_inplace")
            return call_tir_inplace(gvar, kernel.args, [found], kernel.outputs[0], kernel.tir_vars or None)
        name, args = call.args[:2]
        func = self.builder_.get().get(name) if isinstance(name, GlobalVar) else None
        if not isinstance(args, r.Tuple) or not isinstance(func, n.PrimFunc) or not isinstance(name, GlobalVar):
            return None
        for index in self._candidates(args.fields, info):
            key = name, index
            if key not in self._inplace:
                fits = self._index(func, [index]) is not None
                wanted = f"{name.name_hint}_inplace"
                self._inplace[key] = self.builder_.add_func(_over(func, index), wanted) if fits else None
            inplace = self._inplace[key]
            if inplace is not None:
                scalars = call.args[2] if len(call.args) > 2 else None
                return call_tir_inplace(inplace, args, [index], call.sinfo_args[0], scalars)
        return None

    def _candidates(self, args: Sequence[RelaxExpr], info: r.TensorStructInfo) -> list[int]:
        """The arguments that are not used afterwards, and are as large as the result."""
        found: list[int] = []
        for index, arg in enumerate(args):
            roots = self._roots_of(arg)
            others = frozenset().union(*[self._roots_of(other) for i, other in enumerate(args) if i != index])
            dead = all(root in self._fresh and self._ends.get(root) == self._position for root in roots)
            if roots and dead and not roots & others and _same(r.info_of(arg), info):
                found.append(index)
        return found

    def _index(self, func: n.PrimFunc, candidates: Sequence[int]) -> int | None:
        """The first of these arguments that the kernel may write over."""
        return next((index for index in candidates if _may_write_over(func, index)), None)


def _same(a: Any, b: r.TensorStructInfo) -> bool:
    if not isinstance(a, r.TensorStructInfo) or a.dims is None or b.dims is None or a.dtype != b.dtype:
        return False
    return a.vdevice == b.vdevice and len(a.dims) == len(b.dims) and all(map(proven_equal, a.dims, b.dims))


def _may_write_over(func: n.PrimFunc, index: int) -> bool:
    """Whether each element of an argument is read only where the result's element in its place is written."""
    buffers = [func.buffer_map.get(param) for param in func.params]
    arrays = [buffer for buffer in buffers if buffer is not None]
    source, target = buffers[index], arrays[-1]
    if source is None or source is target or len(source.shape) != len(target.shape):
        return False
    if not all(same_expr(a, b) for a, b in zip(source.shape, target.shape)):
        return False
    blocks = [node for node in walk(func.body) if isinstance(node, n.Block) and node.iter_vars]
    stores = [node for node in walk(func.body) if isinstance(node, n.BufferStore)]
    if len(blocks) != 1 or len(stores) != 1 or stores[0].buffer is not target or blocks[0].init is not None:
        return False
    loops = [node for node in walk(func.body) if isinstance(node, n.For)]
    realize = next(node for node in walk(func.body) if isinstance(node, n.BlockRealize) and node.block is blocks[0])
    if {*realize.iter_values} != {loop.loop_var for loop in loops} or len(loops) != len(realize.iter_values):
        return False  # scheduled already: elements may be computed twice
    if not all(axis.iter_type is n.IterType.DATA_PAR for axis in blocks[0].iter_vars):
        return False
    loads = [node for node in walk(func.body) if isinstance(node, n.BufferLoad)]
    if any(load.buffer is target for load in loads) or not all(isinstance(x, n.Var) for x in stores[0].indices):
        return False
    here = [load for load in loads if load.buffer is source]
    return all(all(map(same_expr, load.indices, stores[0].indices)) for load in here)


def _over(func: n.PrimFunc, index: int) -> n.PrimFunc:
    """The kernel that writes its result over an argument."""
    arrays = [param for param in func.params if param in func.buffer_map]
    source, target = func.buffer_map[func.params[index]], func.buffer_map[arrays[-1]]
    params = tuple([param for param in func.params if param is not arrays[-1]])
    buffers = {param: buffer for param, buffer in func.buffer_map.items() if param is not arrays[-1]}
    body = swap_buffers(func.body, {target: source})
    assert isinstance(body, n.Stmt)
    return renew_defs(n.PrimFunc(params, body, func.ret_type, buffers, func.attrs, func.span))
