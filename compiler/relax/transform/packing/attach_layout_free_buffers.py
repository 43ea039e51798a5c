"""Note in kernels which arguments are weights at every call: these may be kept in any layout."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.ir.visit import walk
from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.relax.analysis.compile_time import computable_at_compile_time
from compiler.relax.nodes import Call, Constant, Function, Id, Tuple, Var
from compiler.relax.transform.passes import relax_pass
from compiler.tir import nodes as n


@relax_pass("AttachAttrLayoutFreeBuffers")
def attach_layout_free_buffers(mod: IRModule, context: PassContext, *, constants_only: bool = False) -> IRModule:
    """Note in each kernel which arguments are weights in all calls.

    The attribute is `layout_free_buffers`.

    gv = call_tir(cls.dense, (x, R.const(w)), …)    →    def dense(x, w, y):
                                                             T.func_attr({"layout_free_buffers": (1,)})

    Weights are constants, and unless `constants_only` also what follows from parameters behind the first "num_input".
    """
    free: dict[GlobalVar, set[int]] = {}
    for func in mod.values():
        if isinstance(func, Function):
            _note(func, free, constants_only)
    functions = dict(mod.functions)
    for gvar, places in free.items():
        kernel = mod.get(gvar)
        if isinstance(kernel, n.PrimFunc) and places:
            functions[gvar] = kernel.with_attr(LAYOUT_FREE, tuple(sorted(places)))
    return mod.with_functions(functions)


def kernel_calls(func: Function) -> Iterator[tuple[Call, GlobalVar, tuple[RelaxExpr, ...]]]:
    """The calls of kernels in a function: each with the kernel's name and its arguments."""
    for node in walk(func.body) if func.body is not None else ():
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "relax.call_tir":
            gvar, args = node.args[:2]
            if isinstance(gvar, GlobalVar) and isinstance(args, Tuple):
                yield node, gvar, args.fields


def _note(func: Function, free: dict[GlobalVar, set[int]], constants_only: bool) -> None:
    known: set[Id] = set()
    inputs = func.attrs.get("num_input")
    if inputs is not None and not constants_only:
        early = [*func.params[int(inputs) :], *computable_at_compile_time(func)]
        known = {var.vid for var in early}
    for _, gvar, args in kernel_calls(func):
        places = {
            place for place, arg in enumerate(args)
            if isinstance(arg, Constant) or (isinstance(arg, Var) and arg.vid in known)
        }  # fmt: skip
        free[gvar] = places & free.get(gvar, places)
