"""Functions for code generators become their code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.relax.expr_functor import PyExprMutator
from compiler.relax.fusion.backends import find_codegen
from compiler.relax.nodes import Call, Function, ShapeStructInfo, TensorStructInfo, TupleStructInfo, info_of
from compiler.relax.op.execution.calls import call_dps_packed, call_tir
from compiler.relax.transform.codegen.merge_composite_functions import CODEGEN
from compiler.relax.transform.passes import relax_pass, rewritten
from compiler.tir import nodes as n

EXTERNAL = "external_mods"
"""The attribute of modules with the runtime modules that code generators made."""


@relax_pass("RunCodegen")
def run_codegen(
    mod: IRModule,
    context: PassContext,
    *,
    target_options: Mapping[str, Mapping[str, Any]] | None = None,
    entry_functions: Sequence[str] | None = None,
) -> IRModule:
    """Generate code for functions by the code generators that they name, and call that code instead.

        lv = cls.conv2d_relu_mine(x, w)   →   lv = R.call_dps_packed("conv2d_relu_mine", (x, w), R.Tensor(…))

    The attribute "Codegen" names the generator (see `relax.backend.register_codegen`); `target_options` are options by
    that name. Kernels that a generator gives become functions of the module; runtime modules are kept in the
    attribute "external_mods", and imported by the executable. `entry_functions` is accepted for compatibility with TVM.
    """
    found: dict[str, list[GlobalVar]] = {}
    for name, func in mod.items():
        if isinstance(func, Function) and func.attrs.get(CODEGEN):
            found.setdefault(str(func.attrs[CODEGEN]), []).append(name)
    if not found:
        return mod
    functions = dict(mod.functions)
    modules = list(mod.attrs.get(EXTERNAL, ()))
    kernels: set[str] = set()
    for codegen, names in found.items():
        given = [_named(mod[name], name) for name in names]
        made = find_codegen(codegen)(given, dict((target_options or {}).get(codegen, {})))
        if isinstance(made, IRModule):
            missing = [func.attrs["global_symbol"] for func in given if func.attrs["global_symbol"] not in made]
            if missing:
                raise IRError(f"the code generator {codegen} gave no kernel {missing[0]!r}")
            kernels.update(str(func.attrs["global_symbol"]) for func in given)
            for name, own in made.items():
                if name in functions and name not in names:
                    raise IRError(f"the code generator {codegen} gave {name}, which the module has already")
                functions[name] = own.with_attr("global_symbol", name.name_hint)
        else:
            modules += list(made or ())
        for name in names:
            if not isinstance(functions.get(name), n.PrimFunc):
                functions.pop(name, None)
    symbols = {name: str(_named(mod[name], name).attrs["global_symbol"]) for names in found.values() for name in names}
    changed = rewritten(mod.with_functions(functions), lambda own: _Caller(own, symbols, kernels))
    return changed.with_attr(EXTERNAL, modules) if modules else changed


def _named(func: Any, name: GlobalVar) -> Function:
    named: Function = func if "global_symbol" in func.attrs else func.with_attr("global_symbol", name.name_hint)
    return named


class _Caller(PyExprMutator):
    """Calls code in the place of functions."""

    def __init__(self, mod: IRModule, symbols: Mapping[GlobalVar, str], kernels: set[str]) -> None:
        super().__init__(mod)
        self._symbols = symbols
        self._kernels = kernels

    def visit_call_(self, op: Call) -> Any:
        if not isinstance(op.op, GlobalVar) or op.op not in self._symbols:
            return super().visit_call_(op)
        symbol, info = self._symbols[op.op], info_of(op)
        infos: Any = list(info.fields) if isinstance(info, TupleStructInfo) else info
        if not all(isinstance(item, TensorStructInfo) for item in (infos if isinstance(infos, list) else [infos])):
            raise IRError(f"{symbol} gives {info}; what a code generator computes are tensors, or a tuple of them")
        args = [self.visit_expr(arg) for arg in op.args]
        if symbol not in self._kernels:
            return call_dps_packed(symbol, args, infos)
        shapes = [arg for arg in args if isinstance(info_of(arg), ShapeStructInfo)]
        tensors = [arg for arg in args if not isinstance(info_of(arg), ShapeStructInfo)]
        return call_tir(GlobalVar(symbol), tensors, infos, shapes[0] if shapes else None)
