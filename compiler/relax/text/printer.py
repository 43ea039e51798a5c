"""Graph functions as script text.

Every variable gets a name of its own, in order of appearance. Dimensions are declared before the first binding that
names them. Values that text cannot hold, such as a large constant, are kept beside it (`compiler.ir.text.keep`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.arith.index_map import IndexMap
from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Op, RelaxExpr
from compiler.ir.text import (
    Lines,
    Names,
    keep,
    leave_out,
    quote,
    register_function,
    register_text,
    register_value,
    value_text,
)
from compiler.relax import nodes as r
from compiler.relax.nodes.symbols import symbols_in
from compiler.relax.op.core.params import ParamKind
from compiler.relax.op.core.registry import OPERATORS, Operator
from compiler.relax.op.movement.layout_transform import index_map_text
from compiler.relax.text.print_info import InfoPrinter
from compiler.runtime.core.dtypes import storage_dtype
from compiler.tir import nodes as n
from compiler.tir.nodes import IntImm

_SMALL = 16  # elements of a constant that are spelled out


def function_lines(func: r.Function, name: str) -> list[str]:
    """The lines of a function's definition, under that name."""
    printer = _Printer(Names())
    printer.function(func, name)
    return printer.lines


class _Printer(Lines):
    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names
        self._infos = InfoPrinter(names)
        self._declared: set[n.Var] = set()

    # ----------------------------------------------------------------------------- functions

    def function(self, func: r.Function, name: str) -> None:
        options = [] if func.is_pure else ["pure=False"]
        if "global_symbol" not in func.attrs:
            options.insert(0, "private=True")
        self.line(f"@R.function({', '.join(options)})" if options else "@R.function")
        shown = Names().unique(name)
        self._names.unique(shown)
        params = [f"{self._names.of(p)}: {self._infos.info(p.struct_info, quoted=True)}" for p in func.params]
        self.line(f"def {shown}({', '.join(params)}) -> {self._infos.info(func.ret_struct_info, quoted=True)}:")
        with self.indented():
            self._declare([param.struct_info for param in func.params])
            attrs = {key: value for key, value in func.attrs.items() if key != "global_symbol" or value != name}
            if attrs:
                self.line(f"R.func_attr({value_text(attrs)})")
            if func.body is None:
                self.line("...")
                return
            self._seq(func.body)
            self.line(f"return {self.expr(func.body.body)}")

    def _declare(self, infos: list[r.StructInfo]) -> None:
        """Lines that make dimensions known that were not named before."""
        for info in infos:
            for var in symbols_in(info):
                if var not in self._declared:
                    self._declared.add(var)
                    self.line(f"{self._names.of(var)} = T.{var.dtype}()")

    # -------------------------------------------------------------------------------- blocks

    def _seq(self, seq: r.SeqExpr) -> None:
        for block in seq.blocks:
            self.block(block)

    def block(self, block: r.BindingBlock) -> None:
        if not isinstance(block, r.DataflowBlock):
            for binding in block.bindings:
                self.binding(binding)
            return
        self.line("with R.dataflow():")
        with self.indented():
            for binding in block.bindings:
                self.binding(binding)
            outputs = [b.var for b in block.bindings if not isinstance(b.var, r.DataflowVar)]
            self.line(f"R.output({', '.join(map(self._names.of, outputs))})")

    def binding(self, binding: r.Binding) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, r.MatchCast):
            text = self.expr(value)
            self._declare([binding.struct_info])
            self._assign(var, f"R.match_cast({text}, {self._infos.info(binding.struct_info)})")
        elif isinstance(value, r.If):
            self._if(var, value)
        elif isinstance(value, r.Function):
            self._local(var, value)
        else:
            self._assign(var, self.expr(value))

    def _assign(self, var: r.Var, value: str) -> None:
        if var.struct_info_ is None:
            self.line(f"{self._names.of(var)} = {value}")
            return
        self._declare([var.struct_info_])
        self.line(f"{self._names.of(var)}: {self._infos.info(var.struct_info_)} = {value}")

    def _if(self, var: r.Var, branches: r.If) -> None:
        self.line(f"if {self.expr(branches.cond)}:")
        for position, branch in enumerate((branches.true_branch, branches.false_branch)):
            if position:
                self.line("else:")
            with self.indented():
                self._seq(branch)
                self._assign(var, self.expr(branch.body))

    def _local(self, var: r.Var, func: r.Function) -> None:
        """A local function: a definition under the name of the variable."""
        inner = _Printer(self._names)
        inner._declared = self._declared
        name = self._names.of(var)
        params = [f"{self._names.of(p)}: {self._infos.info(p.struct_info, quoted=True)}" for p in func.params]
        self.line("@R.function" if func.is_pure else "@R.function(pure=False)")
        self.line(f"def {name}({', '.join(params)}) -> {self._infos.info(func.ret_struct_info, quoted=True)}:")
        with self.indented():
            self._declare([param.struct_info for param in func.params])
            if func.attrs:
                self.line(f"R.func_attr({value_text(dict(func.attrs))})")
            self._seq(func.body)
            self.line(f"return {self.expr(func.body.body)}")

    # --------------------------------------------------------------------------- expressions

    def expr(self, expr: RelaxExpr) -> str:
        """An expression."""
        match expr:
            case r.Var():
                return self._names.of(expr)
            case r.Call():
                return self._call(expr)
            case r.Constant():
                return self._constant(expr)
            case r.Tuple():
                fields = [self.expr(item) for item in expr.fields]
                return f"({', '.join(fields)}{',' if len(fields) == 1 else ''})" if fields else "R.tuple()"
            case r.TupleGetItem():
                return f"{self.expr(expr.tuple_value)}[{expr.index}]"
            case r.ShapeExpr():
                return f"R.shape([{self._infos.dims(expr.values)}])"
            case r.PrimValue():
                plain = isinstance(expr.value, IntImm) and expr.value.dtype == "int64"
                return f"R.prim_value({self._infos.dim(expr.value) if plain else self._infos.scalar(expr.value)})"
            case r.StringImm():
                return f"R.str({quote(expr.value)})"
            case r.DataTypeImm():
                return f"R.dtype({quote(expr.value)})"
            case r.ExternFunc():
                return f"R.ExternFunc({quote(expr.global_symbol)})"
            case GlobalVar():
                return f"Module.{expr.name_hint}"
            case Op():
                return f"R.{expr.name.removeprefix('relax.')}"
        raise IRError(f"cannot print a {type(expr).__name__} that no binding names", hint="normalise the graph first")

    def _constant(self, value: r.Constant) -> str:
        dtype = value.data.dtype
        spelled = _spelled(value)
        if spelled is not None and value.data.ndim == 0:
            return f"R.const({spelled}, {quote(dtype)})"
        kept = keep(value.data)
        if kept is not None:
            return f"R.const({kept}, {quote(dtype)})"
        if spelled is not None:
            return f"R.const({spelled}, {quote(dtype)})"
        return leave_out("relax.expr.Constant", value.data)

    def _call(self, call: r.Call) -> str:
        if isinstance(call.op, Op):
            operator = OPERATORS.get(call.op.name)
            return self._operator(call, operator) if operator is not None else self._plain(call, self.expr(call.op))
        if isinstance(call.op, r.ExternFunc):
            parts = [quote(call.op.global_symbol), *map(self.expr, call.args)]
            if call.sinfo_args:
                parts.append(f"sinfo_args={self._several(call.sinfo_args)}")
            return f"R.call_packed({', '.join(parts)})"
        return self._plain(call, self.expr(call.op))

    def _plain(self, call: r.Call, callee: str) -> str:
        parts = [self.expr(arg) for arg in call.args]
        parts += [f"{key}={self._value(value)}" for key, value in call.attrs.items()]
        return f"{callee}({', '.join(parts)})"

    def _operator(self, call: r.Call, operator: Operator) -> str:
        """The call as its function is called: leading arguments by position, the rest by keyword."""
        parts: list[str] = []
        args = list(call.args)
        named = False
        for param in operator.params:
            if param.variadic:
                parts += [self.expr(arg) for arg in args]
                args, named = [], True
            elif param.is_argument:
                if args:
                    value = self._argument(param.kind, args.pop(0))
                    parts.append(f"{param.name}={value}" if named else value)
            elif param.is_attr:
                if param.name in call.attrs:
                    parts.append(f"{param.name}={self._value(call.attrs[param.name])}")
                named = True
            else:
                if call.sinfo_args or param.required:
                    parts.append(f"{param.name}={self._results(param.kind, call.sinfo_args)}")
                named = True
        return f"R.{operator.name.removeprefix('relax.')}({', '.join(parts)})"

    def _argument(self, kind: ParamKind, arg: RelaxExpr) -> str:
        if kind is ParamKind.FUNC and isinstance(arg, r.ExternFunc):
            return quote(arg.global_symbol)
        return self.expr(arg)

    def _results(self, kind: ParamKind, infos: tuple[r.StructInfo, ...]) -> str:
        if kind is ParamKind.RESULT and len(infos) == 1:
            fields = getattr(infos[0], "fields", None)
            return self._infos.info(infos[0]) if fields is None else self._several(fields)
        return self._several(infos)

    def _several(self, infos: tuple[r.StructInfo, ...]) -> str:
        return f"[{', '.join([self._infos.info(info) for info in infos])}]"

    def _value(self, value: Any) -> str:
        return value_text(list(value) if isinstance(value, tuple) else value)


def _spelled(value: r.Constant) -> str | None:
    """The elements as text.
    None if there are many, or if numbers do not express them, such as a NaN with a sign."""
    if not value.data.is_host or value.data.size > _SMALL:
        return None
    elements = value.array.tolist()
    back = np.array(elements)
    if back.dtype.kind == "f":
        back = np.where(np.isnan(back), np.nan, back)
    back = back.astype(storage_dtype(value.data.dtype))
    return value_text(elements) if back.tobytes() == value.array.tobytes() else None


def _text(node: RelaxExpr) -> str:
    return _Printer(Names()).expr(node)


def _block_text(node: r.BindingBlock | r.Binding | r.SeqExpr) -> str:
    printer = _Printer(Names())
    match node:
        case r.BindingBlock():
            printer.block(node)
        case r.SeqExpr():
            printer._seq(node)
            printer.line(printer.expr(node.body))
        case _:
            printer.binding(node)
    return "\n".join(printer.lines)


register_function(r.Function, function_lines)
register_value(IndexMap, index_map_text)
for _kind in (
    r.Var, r.Call, r.Constant, r.Tuple, r.TupleGetItem, r.ShapeExpr, r.PrimValue, r.StringImm, r.DataTypeImm,
    r.ExternFunc,
):  # fmt: skip
    register_text(_kind, _text)
for _part in (r.BindingBlock, r.Binding, r.SeqExpr):
    register_text(_part, _block_text)
register_text(r.StructInfo, lambda info: InfoPrinter(Names()).info(info))
