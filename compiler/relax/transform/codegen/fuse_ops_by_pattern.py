"""Make each match of a pattern a function of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.ir.base import GlobalVar, Op
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax import nodes as r
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.composite import Composite, FusionPattern, as_fusion_pattern, composites
from compiler.relax.fusion.contract import contracted
from compiler.relax.fusion.outline import PRIMITIVE, outlined, read_outside
from compiler.relax.transform.codegen.merge_composite_functions import COMPOSITE, for_codegens
from compiler.relax.transform.passes import relax_pass


@relax_pass("FuseOpsByPattern")
def fuse_ops_by_pattern(
    mod: IRModule, context: PassContext, *, patterns: Sequence[FusionPattern | Sequence[Any]],
    bind_constants: bool = True, annotate_codegen: bool = False, entry_functions: Sequence[str] | None = None,
) -> IRModule:  # fmt: skip
    """Make a function of what each pattern matches, with the pattern's name as its attribute "Composite".

        lv = R.nn.conv2d(x, w)           def fused_relax_nn_conv2d_relax_nn_relu(x, w):   # Composite: mine.conv2d_relu
        lv1 = R.nn.relu(lv)       →          …
                                         lv1 = cls.fused_relax_nn_conv2d_relax_nn_relu(x, w)

    Only in dataflow blocks, the first pattern first. Constants become parameters unless `bind_constants`. With
    `annotate_codegen`, a function around each says which code generator it is for ("mine" here), as
    `MergeCompositeFunctions` does for several. `entry_functions` are looked into; all functions for None.
    """
    known = [as_fusion_pattern(pattern) for pattern in patterns]
    fuser = _Fuser(mod, known, bind_constants)
    for name, func in mod.items():
        if not isinstance(func, r.Function) or func.body is None or COMPOSITE in func.attrs:
            continue
        if entry_functions is None or name.name_hint in entry_functions:
            made = fuser.visit_expr(func)
            if made is not func:
                fuser.builder_.update_func(name, made)
    made = fuser.builder_.get()
    return for_codegens(made, merge=False) if annotate_codegen else made


class _Fuser(PyExprMutator):
    def __init__(self, mod: IRModule, patterns: Sequence[FusionPattern], bind_constants: bool) -> None:
        super().__init__(mod)
        self._patterns = patterns
        self._lift = not bind_constants

    def visit_dataflow_block_(self, block: r.DataflowBlock) -> r.BindingBlock:
        found = composites(block, self._patterns)
        if not found:
            return block
        groups = [item.members for item in found]
        made = contracted(block.bindings, groups, lambda place: self._called(block.bindings, found[place]))
        return r.DataflowBlock(tuple(made), block.span)

    def _called(self, bindings: Sequence[r.Binding], found: Composite) -> list[r.Binding]:
        """Call a function of these bindings; take its fields if it has several results."""
        group = [bindings[number] for number in found.members]
        results = read_outside(bindings, found.members)
        attrs = {COMPOSITE: found.pattern.name, PRIMITIVE: 1, **found.attrs}
        made = outlined(group, results, attrs, self._lift)
        call = made.call(self.builder_.add_func(made.func, _name(group)))
        if len(results) == 1:
            return [r.VarBinding(results[0], call, group[-1].span)]
        whole = r.DataflowVar("lv", made.info)
        fields: list[r.Binding] = [r.VarBinding(var, r.TupleGetItem(whole, place)) for place, var in enumerate(results)]
        return [r.VarBinding(whole, call, group[-1].span), *fields]


def _name(group: Sequence[r.Binding]) -> str:
    calls = [binding.value for binding in group if isinstance(binding.value, r.Call)]
    names = [call.op.name for call in calls if isinstance(call.op, Op) and call.op.name != "relax.call_tir"]
    names += [call.args[0].name_hint for call in calls if call.args and isinstance(call.args[0], GlobalVar)]
    return "_".join(["fused", *(name.replace(".", "_") for name in names)])
