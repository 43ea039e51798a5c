"""Functions that patterns made become functions for code generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.contract import Contraction, contracted
from compiler.relax.fusion.outline import outlined, read_outside
from compiler.relax.transform.functions import make_function
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.relax.utils import copy_with_new_vars

COMPOSITE, CODEGEN = "Composite", "Codegen"


@relax_pass("MergeCompositeFunctions")
def merge_composite_functions(mod: IRModule, context: PassContext) -> IRModule:
    """Make one function of adjacent composite functions for the same code generator.

        lv = cls.conv2d_relu(x, w)     →    def conv2d_relu_mine(x, w, w2):      # Codegen: mine
        lv1 = cls.conv2d_relu(lv, w2)           def inner(…): …                  # Composite: mine.conv2d_relu
                                                …
                                            lv1 = cls.conv2d_relu_mine(x, w, w2)

    The name before the first dot of a "Composite" is the generator's. A value that must be computed between two calls
    keeps them apart.
    """
    return for_codegens(mod, merge=True)


def for_codegens(mod: IRModule, merge: bool) -> IRModule:
    """Return the module with functions for code generators around calls of composite functions.
    Each holds one call, or several."""
    made = rewritten(mod, lambda own: _Merger(own, merge))
    used = {node for func in made.values() for node in walk(func) if isinstance(node, GlobalVar)}
    left = {name: f for name, f in made.items() if name in used or not _is_composite(f)}
    return made.with_functions(left)


def _is_composite(func: object) -> bool:
    return isinstance(func, r.Function) and COMPOSITE in func.attrs and "global_symbol" not in func.attrs


class _Merger(PyExprMutator):
    def __init__(self, mod: IRModule, merge: bool) -> None:
        super().__init__(mod)
        self._module = mod
        self._merge = merge

    def visit_function_(self, op: r.Function) -> Any:
        return op if COMPOSITE in op.attrs or CODEGEN in op.attrs else super().visit_function_(op)

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        bindings = block.bindings
        kinds = [self._codegen(binding) for binding in bindings]
        if not any(kinds):
            return block
        contraction = Contraction(bindings)
        numbers = {binding.var: number for number, binding in enumerate(bindings)}
        for number, binding in enumerate(bindings):
            if not self._merge or not kinds[number]:
                continue
            for node in walk(binding.value):
                source = numbers.get(node) if isinstance(node, r.Var) else None
                if source is not None and kinds[source] == kinds[number]:
                    contraction.join((source, number))
        groups = list(dict.fromkeys(tuple(contraction.members(n)) for n, kind in enumerate(kinds) if kind))
        made = contracted(bindings, groups, lambda place: self._called(bindings, groups[place]))
        return r.DataflowBlock(tuple(made), block.span)

    def _codegen(self, binding: r.Binding) -> str:
        """The code generator of the composite function that a binding calls; "" where it calls none."""
        value = binding.value
        if not isinstance(binding, r.VarBinding) or not isinstance(value, r.Call):
            return ""
        func = self._module.get(value.op) if isinstance(value.op, GlobalVar) else None
        if not isinstance(func, r.Function):
            return ""
        return str(func.attrs.get(COMPOSITE, "")).partition(".")[0]

    def _called(self, bindings: Sequence[r.Binding], members: Sequence[int]) -> list[r.Binding]:
        group = [bindings[number] for number in members]
        results = read_outside(bindings, members)
        codegen = self._codegen(group[0])
        made = outlined(group, results, {CODEGEN: codegen}, lift_constants=False)
        calls = [binding.value.op for binding in group if isinstance(binding.value, r.Call)]
        hint = "_".join([*(op.name_hint for op in calls if isinstance(op, GlobalVar)), codegen])
        func = self._with_inner(made.func)
        gvar = self.builder_.add_func(func, hint)
        self.builder_.update_func(gvar, func.with_attr("global_symbol", gvar.name_hint))
        call = made.call(gvar)
        if len(results) == 1:
            return [r.VarBinding(results[0], call, group[-1].span)]
        whole = r.DataflowVar("lv", made.info)
        fields: list[r.Binding] = [r.VarBinding(var, r.TupleGetItem(whole, place)) for place, var in enumerate(results)]
        return [r.VarBinding(whole, call, group[-1].span), *fields]

    def _with_inner(self, func: r.Function) -> r.Function:
        """The function with the composite functions that it calls inside of it."""
        assert func.body is not None
        inner: dict[GlobalVar, r.Var] = {}
        first: list[r.Binding] = []
        blocks: list[r.BindingBlock] = []
        for block in func.body.blocks:
            items: list[r.Binding] = []
            for binding in block.bindings:
                value = binding.value
                if isinstance(value, r.Call) and isinstance(value.op, GlobalVar):
                    if value.op not in inner:
                        composite = self._module[value.op]
                        assert isinstance(composite, r.Function)
                        own = copy_with_new_vars(composite)
                        inner[value.op] = r.Var(value.op.name_hint, own.struct_info)
                        first.append(r.VarBinding(inner[value.op], own))
                    call = r.Call(inner[value.op], value.args, value.attrs, value.sinfo_args, value.span)
                    if value.struct_info_ is not None:
                        r.set_struct_info(call, value.struct_info_)
                    value = call
                items.append(r.VarBinding(binding.var, value, binding.span))
            blocks.append(r.DataflowBlock(tuple(items), block.span))
        body = type(func.body)((r.BindingBlock(tuple(first)), *blocks), func.body.body, func.body.span)
        return make_function(self._module, func.params, body, func.is_pure, func.attrs, func.span)
