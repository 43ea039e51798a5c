"""Code of others gets memory to work in."""

from __future__ import annotations

from typing import Any

from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.nodes import Call, Function, SeqExpr, ShapeExpr, TensorStructInfo, Var, VarBinding
from compiler.relax.nodes.dims import int64
from compiler.relax.op.execution.memory import builtin_alloc_tensor
from compiler.relax.transform.codegen.merge_composite_functions import CODEGEN
from compiler.relax.transform.functions import make_function, with_signature
from compiler.relax.transform.passes import relax_pass

WORKSPACE = "WorkspaceSize"
"""The attribute of functions that need memory to work in, in bytes."""


@relax_pass("AllocateWorkspace")
def allocate_workspace(mod: IRModule, context: PassContext) -> IRModule:
    """Make one array of bytes as the workspace of all external code, and pass it as the last argument.

        def mine(x, w):                       def mine(x, w, workspace: R.Tensor((1024,), "uint8")):
            R.func_attr({                         R.func_attr({"Codegen": "mine", "WorkspaceSize": 1024})
                "Codegen": "mine",       →        …
                "WorkspaceSize": 1024})       def main(x, w):  # attribute "relax.force_pure"
        def main(x, w):                           workspace_main = R.builtin.alloc_tensor((1024,), "uint8", 0)
            lv = cls.mine(x, w)                   lv = cls.mine(x, w, workspace_main)

    The attribute "WorkspaceSize" is that of a function for a code generator, or of one inside of it. The array is as
    large as the largest. The pass comes before RunCodegen.
    """
    sizes: dict[GlobalVar, int] = {}
    for name, func in mod.items():
        if isinstance(func, Function) and func.body is not None and func.attrs.get(CODEGEN):
            inner = [node for node in walk(func) if isinstance(node, Function)]
            size = max((int(node.attrs.get(WORKSPACE, 0)) for node in inner), default=0)
            if size:
                sizes[name] = size
    if not sizes:
        return mod
    info = TensorStructInfo((max(sizes.values()),), "uint8")  # type: ignore[arg-type]
    functions = dict(mod.functions)
    for name in sizes:
        func = mod[name]
        assert isinstance(func, Function)
        functions[name] = with_signature(mod, func, [*func.params, Var("workspace", info)])
    larger = mod.with_functions(functions)
    for name, func in mod.items():
        if name in sizes or not isinstance(func, Function) or func.body is None:
            continue
        if any(isinstance(node, Call) and node.op in sizes for node in walk(func)):
            functions[name] = _caller(larger, func, name, sizes, info)
    return mod.with_functions(functions)


def _caller(
    mod: IRModule, func: Function, name: GlobalVar, sizes: dict[GlobalVar, int], info: TensorStructInfo
) -> Function:
    """A function that makes the workspace first, and passes it on."""
    workspace = Var(f"workspace_{name.name_hint}", info)
    assert isinstance(info.shape, ShapeExpr)
    first = VarBinding(workspace, builtin_alloc_tensor(info.shape, "uint8", int64(0)))
    made = _Passing(mod, sizes, workspace).visit_expr(with_signature(mod, func, func.params, [first]))
    assert isinstance(made, Function)
    assert isinstance(made.body, SeqExpr)
    attrs = {**func.attrs, "relax.force_pure": True} if func.is_pure else func.attrs  # it makes memory, and keeps it
    return make_function(mod, made.params, made.body, func.is_pure, attrs, func.span)


class _Passing(PyExprMutator):
    def __init__(self, mod: IRModule, sizes: dict[GlobalVar, int], workspace: Var) -> None:
        super().__init__(mod)
        self._sizes = sizes
        self._workspace = workspace

    def visit_call_(self, op: Call) -> Any:
        if op.op not in self._sizes:
            return super().visit_call_(op)
        args = [self.visit_expr(arg) for arg in op.args]
        return Call(op.op, [*args, self.visit_expr(self._workspace)], op.attrs, op.sinfo_args, op.span)
