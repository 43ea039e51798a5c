"""Whether graphs hold together: what every pass may rely on, and must leave behind."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node, Op, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.visit import child_list
from compiler.relax import nodes as r
from compiler.relax.analysis.purity import is_impure_call
from compiler.relax.nodes.symbols import symbols_in, symbols_set_by
from compiler.relax.normalize import is_leaf, is_leaf_or_tuple
from compiler.relax.op.core.registry import OPERATORS
from compiler.te.where import at
from compiler.tir import nodes as n


def well_formed(obj: IRModule | r.Function, check_struct_info: bool = True) -> bool:
    """Whether a module or function holds together; `problems` says what does not."""
    return next(iter(_Checker(obj, check_struct_info).run()), None) is None


def problems(obj: IRModule | r.Function, check_struct_info: bool = True) -> list[str]:
    """Return what does not hold together in a module or function, a sentence each."""
    return list(_Checker(obj, check_struct_info).run())


def assert_well_formed(obj: IRModule | r.Function, check_struct_info: bool = True) -> None:
    """Raise IRError that lists what does not hold together."""
    found = problems(obj, check_struct_info)
    if found:
        raise IRError("the graph is not well formed:\n" + "\n".join(f"  - {problem}" for problem in found))


class _Checker:
    def __init__(self, obj: IRModule | r.Function, check_struct_info: bool) -> None:
        self._module = obj if isinstance(obj, IRModule) else None
        self._functions = obj.items() if isinstance(obj, IRModule) else [(None, obj)]
        self._check_info = check_struct_info
        self._defined: set[r.Var] = set()
        self._visible: set[r.Var] = set()
        self._symbols: set[n.Var] = set()
        self._where = ""

    def run(self) -> Iterator[str]:
        for gvar, func in self._functions:
            if not isinstance(func, r.Function):
                continue
            self._where = f"{gvar.name_hint}: " if gvar is not None else ""
            if gvar is not None:
                symbol = func.attrs.get("global_symbol")
                if symbol is not None and symbol != gvar.name_hint:
                    yield self._say(f"its global_symbol is {symbol!r}")
            self._visible, self._symbols = set(), set()
            yield from self._function(func)

    def _say(self, text: str, node: object = None) -> str:
        return f"{self._where}{text}{at(getattr(node, 'span', None))}"

    # ----------------------------------------------------------------------------- functions

    def _function(self, func: r.Function) -> Iterator[str]:
        visible, symbols = set(self._visible), set(self._symbols)
        for param in func.params:
            if param.struct_info_ is not None:
                self._symbols.update(symbols_set_by(param.struct_info_))
        for param in func.params:
            if isinstance(param, r.DataflowVar):
                yield self._say(f"the parameter {param.name_hint} is a dataflow variable", param)
            yield from self._define(param)
            yield from self._info(param.struct_info_, f"the parameter {param.name_hint}")
        if func.body is None:
            yield self._say("the function has no body", func)
        else:
            yield from self._seq(func.body, "the body of the function")
            yield from self._info(func.ret_struct_info, "what the function returns")
            body = r.info_of(func.body.body)
            if body is not None and func.ret_struct_info.check(body) is r.BaseCheckResult.FAIL_L0:
                yield self._say(f"the function returns {body}, but says {func.ret_struct_info}", func)
            if func.is_pure and not func.attrs.get("relax.force_pure"):
                yield from self._pure(func.body, "a pure function")
        self._visible, self._symbols = visible, symbols

    def _pure(self, start: Node, what: str) -> Iterator[str]:
        stack: list[Node] = [start]
        while stack:
            node = stack.pop()
            if isinstance(node, r.Call) and is_impure_call(node):
                yield self._say(f"{r.describe(node)} may have a side effect, but stands in {what}", node)
            if not isinstance(node, r.Function):
                stack += child_list(node)[::-1]

    # -------------------------------------------------------------------------------- blocks

    def _seq(self, seq: RelaxExpr, what: str) -> Iterator[str]:
        if not isinstance(seq, r.SeqExpr):
            yield self._say(f"{what} is {r.describe(seq)}, no SeqExpr", seq)
            return
        for block in seq.blocks:
            yield from self._block(block)
        if not is_leaf_or_tuple(seq.body):
            yield self._say(f"{what} ends with {r.describe(seq.body)}, which has no name", seq.body)
        yield from self._expr(seq.body)

    def _block(self, block: r.BindingBlock) -> Iterator[str]:
        dataflow = isinstance(block, r.DataflowBlock)
        inner: list[r.Var] = []
        for binding in block.bindings:
            yield from self._binding(binding, dataflow)
            if isinstance(binding.var, r.DataflowVar):
                inner.append(binding.var)
        if dataflow:
            yield from self._pure(block, "a dataflow block")
            self._visible.difference_update(inner)

    def _binding(self, binding: r.Binding, dataflow: bool) -> Iterator[str]:
        var, value = binding.var, binding.value
        name = f"the value of {var.name_hint}"
        if isinstance(value, r.Function):  # it may call itself by the name
            self._visible.add(var)
            yield from self._function(value)
        else:
            if dataflow and isinstance(value, r.If):
                yield self._say(f"{name} is a condition, but stands in a dataflow block", value)
            if isinstance(value, r.SeqExpr):
                yield self._say(f"{name} is a SeqExpr: its bindings belong into the block", value)
            yield from self._expr(value)
        if isinstance(binding, r.MatchCast):
            self._symbols.update(symbols_set_by(binding.struct_info))
            yield from self._info(binding.struct_info, f"the struct_info of {var.name_hint}")
        yield from self._define(var)
        if isinstance(var, r.DataflowVar) and not dataflow:
            yield self._say(f"the dataflow variable {var.name_hint} is defined outside of a dataflow block", binding)
        if not self._check_info:
            return
        yield from self._info(var.struct_info_, f"the variable {var.name_hint}")
        known = r.info_of(value)
        if isinstance(binding, r.MatchCast):
            known = binding.struct_info
        if known is not None and var.struct_info_ is not None:
            found = var.struct_info_.check(known)
            if found in (r.BaseCheckResult.FAIL_L0, r.BaseCheckResult.FAIL_L1):
                yield self._say(f"{name} is {known}, but the variable says {var.struct_info_}", binding)

    def _define(self, var: r.Var) -> Iterator[str]:
        if var in self._defined:
            yield self._say(f"the variable {var.name_hint} is defined twice", var)
        self._defined.add(var)
        self._visible.add(var)

    # --------------------------------------------------------------------------- expressions

    def _expr(self, expr: RelaxExpr) -> Iterator[str]:
        if self._check_info and isinstance(expr, r.Expr) and expr.struct_info_ is None:
            yield self._say(f"nothing is known of {r.describe(expr)}: it has no StructInfo", expr)
        match expr:
            case r.Var():
                if expr not in self._visible:
                    what = "is not seen here" if expr in self._defined else "is not defined"
                    yield self._say(f"the variable {expr.name_hint} is used, but {what}", expr)
            case GlobalVar():
                if self._module is not None and expr not in self._module:
                    yield self._say(f"the function {expr.name_hint} is used, but the module has none", expr)
            case Op():
                if expr.name not in OPERATORS:
                    yield self._say(f"there is no graph operator {expr.name}", expr)
            case r.Call():
                yield from self._expr(expr.op)
                yield from self._arguments(expr.args, r.describe(expr))
                for info in expr.sinfo_args:
                    yield from self._info(info, f"the sinfo_args of {r.describe(expr)}")
            case r.Tuple():
                yield from self._arguments(expr.fields, "a tuple")
            case r.TupleGetItem():
                yield from self._arguments((expr.tuple_value,), "a field")
            case r.If():
                if not is_leaf(expr.cond):
                    yield self._say(f"the condition is {r.describe(expr.cond)}, which has no name", expr)
                yield from self._expr(expr.cond)
                for branch in (expr.true_branch, expr.false_branch):
                    visible, symbols = set(self._visible), set(self._symbols)
                    yield from self._seq(branch, "a branch")
                    self._visible, self._symbols = visible, symbols
            case r.SeqExpr():
                yield from self._seq(expr, "a sequence")
            case r.Function():
                yield self._say("a function stands where no binding names it", expr)
            case r.Expr() if expr.struct_info_ is not None:
                yield from self._info(expr.struct_info_, r.describe(expr))

    def _arguments(self, args: tuple[RelaxExpr, ...], what: str) -> Iterator[str]:
        for position, arg in enumerate(args):
            if not is_leaf_or_tuple(arg):
                yield self._say(f"argument {position} of {what} is {r.describe(arg)}, which has no name", arg)
            else:
                yield from self._expr(arg)

    # ---------------------------------------------------------------------------- dimensions

    def _info(self, info: r.StructInfo | None, what: str) -> Iterator[str]:
        if info is None:
            if self._check_info:
                yield self._say(f"nothing is known of {what}: it has no StructInfo")
            return
        missing = [var for var in symbols_in(info) if var not in self._symbols]
        if missing:
            yield self._say(f"{what} mentions the dimension {missing[0].name}, which has no value here: {info}")
