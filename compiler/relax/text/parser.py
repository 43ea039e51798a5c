"""Graph functions of a text; and graphs as a dialect of texts."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.ir.module import IRModule
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.normalize import merged
from compiler.relax.text import vocabulary
from compiler.relax.text.parse_values import ValueParser
from compiler.script.dialect import Dialect, register
from compiler.script.entry import read_decorated
from compiler.script.parser import ModuleName, decorator
from compiler.script.scope import Scope
from compiler.script.source import ScriptError, Source
from compiler.tir import nodes as n


class FunctionReader:
    """Reads graph functions: parameters, blocks and statements. `read` parses their values."""

    def __init__(self, read: ValueParser) -> None:
        self.read = read
        self.builder = read.builder
        self.returns: r.StructInfo | None = None  # what R.func_ret_struct_info said

    def parameters(self, node: ast.FunctionDef) -> tuple[r.Var, ...]:
        spec = node.args
        if spec.vararg or spec.kwarg or spec.defaults or spec.kwonlyargs or spec.posonlyargs:
            self.read.fail(node, "a function takes plain parameters only: no defaults, no *args")
        found = []
        for param in spec.args:
            if param.annotation is None:
                self.read.fail(param, f"parameter {param.arg!r} has no type", 'write x: R.Tensor((2, 3), "float32")')
            found.append(r.Var(param.arg, self.read.info(param.annotation), self.read.span(param)))
        for var in found:
            self.read.scope.define(var.name_hint, var)
        return tuple(found)

    def function(self, node: ast.FunctionDef, options: Mapping[str, Any], local: bool = False) -> r.Function:
        """The function that a definition describes."""
        params = self.parameters(node)
        declared = None if node.returns is None else self.read.info(node.returns)
        outer, self.returns = self.returns, declared
        attrs: dict[str, Any] = {}
        if not local and not options.get("private"):
            attrs["global_symbol"] = node.name
        pure = bool(options.get("pure", True))
        self.builder.begin_scope(params)
        try:
            blocks, value = self.statements(node.body, attrs)
            declared, self.returns = self.returns, outer
            if value is None:
                if declared is not None and len(node.body) and _is_ellipsis(node.body[-1]):
                    return r.Function.create_empty(params, declared, pure, attrs, self.read.span(node))
                self.read.fail(node, f"the function {node.name} returns nothing")
            with self.read.source.at(node):
                info = declared or r.info_of(value)
                seq = self.builder.normal_function(
                    r.Function(params, r.SeqExpr(blocks, value), info, pure, attrs, self.read.span(node))
                )
        finally:
            self.builder.end_scope()
        if declared is not None:
            body = r.info_of(seq.body.body)
            if body is not None and declared.check(body) in (r.BaseCheckResult.FAIL_L0, r.BaseCheckResult.FAIL_L1):
                self.read.fail(node.returns or node, f"the function returns {body}, which is no {declared}")
        elif seq.body.struct_info_ is not None:
            seq = r.Function(seq.params, seq.body, seq.body.struct_info_, pure, attrs, self.read.span(node))
        return seq

    # ---------------------------------------------------------------------------- statements

    def statements(
        self, body: Sequence[ast.stmt], attrs: dict[str, Any]
    ) -> tuple[tuple[r.BindingBlock, ...], Any]:
        """The blocks of a body, and its result; None if it returns nothing."""
        blocks: list[r.BindingBlock] = []
        value: Any = None
        self.builder._begin_binding_block()
        for position, stmt in enumerate(body):
            if isinstance(stmt, ast.Return) and stmt.value is not None:
                if position != len(body) - 1:
                    self.read.fail(body[position + 1], "nothing comes after return")
                with self.read.source.at(stmt):
                    value = self.builder.normalize_argument(r.convert_to_expr(self.read.value(stmt.value)))
            elif isinstance(stmt, ast.With):
                blocks.append(self.builder._end_block())
                blocks.append(self.dataflow(stmt))
                self.builder._begin_binding_block()
            else:
                self.statement(stmt, attrs, None)
        blocks.append(self.builder._end_block())
        return merged([block for block in blocks if block.bindings]), value

    def dataflow(self, node: ast.With) -> r.BindingBlock:
        if len(node.items) != 1 or self.read.call(node.items[0].context_expr) != "dataflow":
            self.read.fail(node, "a graph has `with R.dataflow():` only")
        outputs: dict[str, ast.expr] = {}
        body = list(node.body)
        if isinstance(body[-1], ast.Expr) and self.read.call(body[-1].value) == "output":
            last = body.pop()
            assert isinstance(last, ast.Expr)
            assert isinstance(last.value, ast.Call)
            for arg in last.value.args:
                if not isinstance(arg, ast.Name):
                    self.read.fail(arg, "R.output takes names of variables")
                outputs[arg.id] = arg
        self.builder._begin_dataflow_block()
        with self.read.scope.block() as inside:
            for stmt in body:
                self.statement(stmt, {}, set(outputs))
        for name, arg in outputs.items():
            if name not in inside:
                self.read.fail(arg, f"{name} is not bound in this dataflow block", f"bound here: {', '.join(inside)}")
        for name, value in inside.items():
            if isinstance(value, r.DataflowVar):
                self.read.hidden.add(name)
            else:
                self.read.scope.define(name, value)
        return self.builder._end_block()

    def statement(self, stmt: ast.stmt, attrs: dict[str, Any], outputs: set[str] | None) -> None:
        """One statement; `outputs` are the variables of a dataflow block that are seen outside of it."""
        match stmt:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self.assign(stmt, name, value, self.read.info(stmt.annotation), outputs)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar"))):
                self.read.scope.define(name, self.read.size(stmt, name))
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                for each, part in zip(names, values):
                    self.statement(ast.copy_location(ast.Assign([each], part), stmt), attrs, outputs)
            case ast.Assign(targets=[ast.Name(id="cls")]):
                pass  # `cls = Module` repeats what is known
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if self.read.call(value, "tir") in ("int64", "int32") and not getattr(value, "args", None):
                    self._dimension(stmt, name, value)
                else:
                    self.assign(stmt, name, value, None, outputs)
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring, or the body of a declaration
            case ast.Expr(value=ast.Call() as call) if self.read.call(call) == "func_attr":
                found = self.read.value(call.args[0]) if len(call.args) == 1 else None
                if not isinstance(found, dict):
                    self.read.fail(stmt, "attributes are a dict: R.func_attr({...})")
                attrs.update(found)
            case ast.Expr(value=ast.Call(args=[info]) as call) if self.read.call(call) == "func_ret_struct_info":
                self.returns = self.read.info(info)
            case ast.Expr(value=value):
                self.assign(stmt, "_", value, None, outputs)
            case ast.If():
                self.condition(stmt)
            case ast.FunctionDef():
                self.local(stmt)
            case ast.Pass():
                pass
            case _:
                self.read.fail(stmt, "this has no place in a graph", "write assignments, if, return, with R.dataflow()")

    def _dimension(self, stmt: ast.stmt, name: str, value: ast.expr) -> None:
        """`n = T.int64()` declares a dimension that the signature may have named before."""
        if isinstance(self.read.scope.find(name, None), n.Var):
            return
        if self.read.call(value, "tir") != "int64":
            self.read.fail(stmt, f"the dimension {name} is int32", "dimensions are T.int64()")
        self.read.scope.define(name, n.Var(name, "int64", self.read.span(stmt)))

    def assign(
        self, stmt: ast.stmt, name: str, value: ast.expr, info: r.StructInfo | None, outputs: set[str] | None
    ) -> None:
        inner = outputs is not None and name not in outputs
        kind = r.DataflowVar if inner else r.Var
        with self.read.source.at(stmt):
            if self.read.call(value) in ("match_cast", "emit_match_cast"):
                assert isinstance(value, ast.Call)
                if len(value.args) != 2:
                    self.read.fail(value, "R.match_cast takes a value and StructInfo")
                data = self.builder.normalize_argument(r.convert_to_expr(self.read.value(value.args[0])))
                found = self.read.info(value.args[1])
                var = kind(name, info or found, self.read.span(stmt))
                self.builder.emit_normalized(r.MatchCast(var, data, found, self.read.span(stmt)))
            else:
                made = self.builder.normalize_value(r.convert_to_expr(self.read.value(value)))
                known = r.info_of(made)
                assert known is not None
                if info is not None and info.check(known) in (r.BaseCheckResult.FAIL_L0, r.BaseCheckResult.FAIL_L1):
                    self.read.fail(stmt, f"the value of {name} is {known}, which is no {info}")
                var = kind(name, info or known, self.read.span(stmt))
                self.builder.emit_normalized(r.VarBinding(var, made, self.read.span(stmt)))
        self.read.scope.define(name, var)

    def condition(self, stmt: ast.If) -> None:
        """`if`, whose branches both end by giving one variable its value."""
        cond = self.read.value(stmt.test)
        names = {_last_name(branch) for branch in (stmt.body, stmt.orelse)}
        if len(names) != 1 or None in names:
            self.read.fail(stmt, "both branches of `if` end by giving the same variable its value")
        (name,) = names
        assert name is not None
        branches: list[r.SeqExpr] = []
        for body in (stmt.body, stmt.orelse):
            self.builder.begin_scope(None)
            with self.read.scope.block():
                self.builder._begin_binding_block()
                for inner in body[:-1]:
                    self.statement(inner, {}, None)
                last = body[-1]
                value = getattr(last, "value", None)
                with self.read.source.at(last):
                    if value is None:
                        self.condition(last)  # type: ignore[arg-type]
                        result = self.read.scope.find(name)
                    else:
                        result = self.builder.normalize_argument(r.convert_to_expr(self.read.value(value)))
                block = self.builder._end_block()
            self.builder.end_scope()
            branches.append(r.SeqExpr((block,) if block.bindings else (), result))
        with self.read.source.at(stmt):
            made = self.builder.normalize_value(r.If(cond, branches[0], branches[1], self.read.span(stmt)))
            var = r.Var(name, r.info_of(made), self.read.span(stmt))
            self.builder.emit_normalized(r.VarBinding(var, made, self.read.span(stmt)))
        self.read.scope.define(name, var)

    def local(self, node: ast.FunctionDef) -> None:
        """A local function, which may call itself."""
        mark = decorator(self.read, node, "relax", "function")
        if mark is None:
            self.read.fail(node, "a local function is decorated with @R.function")
        options = self.read.arguments(mark)[1] if isinstance(mark, ast.Call) else {}
        with self.read.scope.block():
            var = r.Var(node.name, self.signature(node, bool(options.get("pure", True))), self.read.span(node))
            self.read.scope.define(node.name, var)
            func = self.function(node, options, local=True)
        self.builder.emit_normalized(r.VarBinding(var, func, self.read.span(node)))
        self.read.scope.define(node.name, var)

    def signature(self, node: ast.FunctionDef, pure: bool) -> r.FuncStructInfo | None:
        """Return what a definition states about its function; None if it does not state the result."""
        if node.returns is None or any(param.annotation is None for param in node.args.args):
            return None
        params = [self.read.info(param.annotation) for param in node.args.args if param.annotation is not None]
        return r.FuncStructInfo(params, self.read.info(node.returns), pure)


def _is_ellipsis(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and stmt.value.value is ...


def _last_name(body: Sequence[ast.stmt]) -> str | None:
    match body[-1] if body else None:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.If() as inner:
            return _last_name(inner.body)
    return None


def function(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> r.Function:
    """The function a definition describes. Raises ScriptError."""
    module = captured.get("cls")
    builder = BlockBuilder(IRModule(module.made) if isinstance(module, ModuleName) else None)
    for name in module.signatures if isinstance(module, ModuleName) else ():
        builder.take_name(name)
    values = ValueParser(source, Scope(captured), builder)
    return FunctionReader(values).function(node, _options(values, node))


def _options(p: ValueParser, node: ast.FunctionDef) -> dict[str, Any]:
    mark = decorator(p, node, "relax", "function")
    named = p.arguments(mark)[1] if isinstance(mark, ast.Call) else {}
    known = {"check_well_formed", "private", "pure"}
    if not set(named) <= known:
        p.fail(mark or node, f"R.function takes {', '.join(sorted(known))}")
    return named


def signature(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> r.FuncStructInfo | None:
    """Return what other functions of a module may know about one before it is read."""
    values = ValueParser(source, Scope(captured), BlockBuilder())
    try:
        return FunctionReader(values).signature(node, bool(_options(values, node).get("pure", True)))
    except ScriptError:
        return None  # reading the function says it better


def relax_function(
    func: Callable[..., Any] | None = None, pure: bool = True, private: bool = False, check_well_formed: bool = True
) -> Any:
    """Decorator: the Python function is read as a script, and becomes a graph function.

    Its body never runs. `pure=False`: it may have side effects. `private`: without a global symbol. Raises ScriptError.
    """
    return relax_function if func is None else read_decorated(func, sys._getframe(1), "relax", "function")


register(Dialect("relax", "R", {"function": function}, vocabulary.lookup, vocabulary.names, signature))
