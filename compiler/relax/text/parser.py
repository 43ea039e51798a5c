"""Graph functions of a text; and graphs as a dialect of texts."""

from __future__ import annotations

import ast
import operator as python
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import GlobalVar, Node, RelaxExpr
from compiler.ir.module import IRModule
from compiler.ir.vdevice import as_vdevice
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.nodes import (
    BaseCheckResult,
    BindingBlock,
    Call,
    DataflowVar,
    Expr,
    FuncStructInfo,
    Function,
    If,
    MatchCast,
    SeqExpr,
    StructInfo,
    TupleStructInfo,
    Var,
    VarBinding,
    convert_to_expr,
    info_of,
    set_struct_info,
)
from compiler.relax.normalize import merged
from compiler.relax.op.core.registry import OPERATORS
from compiler.relax.text import vocabulary
from compiler.relax.text.vocabulary import as_info, fit
from compiler.script.dialect import Dialect, register
from compiler.script.entry import read_decorated
from compiler.script.parser import ModuleName, Namespace, Parser, SizeName, decorator
from compiler.script.scope import Scope
from compiler.script.source import ScriptError, Source
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: python.add, ast.Sub: python.sub, ast.Mult: python.mul, ast.Div: python.truediv,
    ast.FloorDiv: python.floordiv, ast.Mod: python.mod, ast.Pow: python.pow,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: python.lt, ast.LtE: python.le, ast.Gt: python.gt, ast.GtE: python.ge,
}


_KERNEL = FuncStructInfo.opaque_func(ret=TupleStructInfo(()))


class RelaxParser(Parser):
    """Reads graph functions. Values are emitted into `builder` as they are read."""

    SPACE = "relax"
    EXPECTED = "write calls of R's operators, tuples and fields"

    def __init__(self, source: Source, scope: Scope, builder: BlockBuilder) -> None:
        super().__init__(source, scope)
        self.builder = builder
        self.naming = False  # whether a name that is not known is a new dimension
        self.hidden: set[str] = set()  # names of variables of dataflow blocks that were read
        self.returns: StructInfo | None = None  # what R.func_ret_struct_info said

    # ---------------------------------------------------------------- what the dialect decides

    def plain(self, value: Any) -> Any:
        return value.value if isinstance(value, n.IntImm) else value

    def binary(self, node: ast.BinOp, a: Any, b: Any) -> Any:
        rule = _BINARY.get(type(node.op))
        if rule is None or not any(isinstance(value, RelaxExpr | PrimExpr) for value in (a, b)):
            self.fail(node, f"the operator of {ast.unparse(node)} has no place in a graph")
        return rule(a, b)

    def unary(self, node: ast.UnaryOp, operand: Any) -> Any:
        if not isinstance(node.op, ast.USub) or not isinstance(operand, RelaxExpr | PrimExpr):
            self.fail(node, f"the operator of {ast.unparse(node)} has no place in a graph")
        return -operand  # type: ignore[operator]

    def compare(self, node: ast.Compare, op: ast.cmpop, a: Any, b: Any) -> Any:
        rule = _COMPARE.get(type(op))
        if rule is None:
            self.fail(node, f"the comparison {ast.unparse(node)} has no place in a graph")
        return rule(a, b)

    def attribute(self, node: ast.Attribute, owner: Any) -> Any:
        if node.attr != "astype" or not isinstance(owner, Expr):
            self.fail(node, f"{ast.unparse(node)} has no place in a graph")
        return owner.astype

    def may_call(self, node: ast.Attribute, callee: Any) -> bool:
        return node.attr == "astype"

    def element(self, node: ast.Subscript, owner: Any) -> Any:
        if not isinstance(owner, RelaxExpr):
            self.fail(node.value, f"{ast.unparse(node.value)} has no elements")
        try:
            return owner[self.constant(node.slice, int, "a field")]  # type: ignore[index]
        except (TypeError, IndexError) as error:
            self.fail(node, str(error))

    def function_of_module(self, node: ast.Attribute, module: ModuleName) -> GlobalVar:
        found = GlobalVar(node.attr)
        known = module.signatures[node.attr]
        if isinstance(known, str):  # a function of TensorIR and the type that it returns
            set_struct_info(found, _KERNEL)
        elif isinstance(known, StructInfo):
            set_struct_info(found, known)
        return found

    def value_Name(self, node: ast.Name) -> Any:
        found = self.scope.find(node.id, None)
        if self.naming and not isinstance(found, int | PrimExpr | SizeName):  # a module "n", say, is no size
            found = n.Var(node.id, "int64", self.span(node))
            self.scope.define(node.id, found)
        if found is None and node.id == "metadata":
            self.fail(node, "the constants of this text were left out", "print it by script(show_meta=True)")
        if found is None and node.id in self.hidden:
            self.fail(node, f"{node.id} is seen only in its dataflow block", f"end that by R.output({node.id})")
        return super().value_Name(node) if found is None or isinstance(found, SizeName) else found

    def size(self, node: ast.AST, name: str) -> PrimExpr:
        return n.Var(name, "int64", self.span(node))

    def value_Constant(self, node: ast.Constant) -> Any:
        return ... if node.value is ... else super().value_Constant(node)

    def special_call(self, node: ast.Call) -> tuple[Any] | None:
        """Annotations name dimensions in strings; functions that are values are called."""
        name = self.call(node)
        if name in ("Tensor", "Shape", "Prim") and self.member(node.func) is not None:
            args = [self._dims(arg) for arg in node.args]
            shapes = ("shape", "values")
            named = {
                str(k.arg): self._dims(k.value) if k.arg in shapes else self._dim(k.value, k.arg != "value")
                for k in node.keywords
            }
            if name == "Tensor" and len(args) > 2:
                args[2] = self.device(args[2])
            elif "vdevice" in named:
                named["vdevice"] = self.device(named["vdevice"])
            return (self.value(node.func)(*args, **named),)
        if name == "emit" and len(node.args) == 1:
            return (self.value(node.args[0]),)
        if name == "emit_te":
            return (self.kernel(node),)
        operator = None if name is None else OPERATORS.get(f"relax.{name}")
        if operator is not None or name == "call_packed":
            args, named = self.arguments(node)
            try:
                if operator is None:
                    return (vocabulary.call_packed(*args, **named, span=self.span(node)),)
                return (operator.call(*fit(operator, args, named), self.span(node)),)
            except ArgumentError as error:
                self.fail(node, error.message, error.hint)
            except TypeError as error:
                self.fail(node, f"{ast.unparse(node.func)}: {error}")
        if self.member(node.func) is None and isinstance(node.func, ast.Name | ast.Attribute | ast.Subscript):
            callee = self._callee(node.func)
            if callee is not None:
                args, _ = self.arguments(node)
                return (Call(callee, tuple(map(convert_to_expr, args)), None, None, self.span(node)),)
        return None

    def kernel(self, node: ast.Call) -> Call:
        """`R.emit_te(f, x)`: a call of the kernel that computes the te function `f`, which joins the module."""
        module = self.scope.find("cls", None)
        if not isinstance(module, ModuleName):
            self.fail(node, "R.emit_te needs a module for its kernel", "write it in a class with @I.ir_module")
        if not node.args:
            self.fail(node, "R.emit_te takes a te function and its arguments: R.emit_te(topi.add, x, y)")
        func = self._around(node.args[0])
        if not callable(func):
            shown = ast.unparse(node.args[0])
            self.fail(node.args[0], f"{shown} is no function of the program around", "name one, such as topi.add")
        args, named = self.arguments(ast.copy_location(ast.Call(node.func, node.args[1:], node.keywords), node))
        with self.source.at(node):
            made = self.builder.call_te(func, *args, **named)
        module.made.update((g, f) for g, f in self.builder.get().functions.items() if isinstance(f, n.PrimFunc))
        return made

    def _around(self, node: ast.expr) -> Any:
        """What a dotted name of the program around the script stands for; None where it is nothing."""
        match node:
            case ast.Name(id=name):
                found = self.scope.find(name, None)
                return None if isinstance(found, Node | Namespace | ModuleName | SizeName) else found
            case ast.Attribute(value=owner, attr=name) if not name.startswith("_"):
                return getattr(self._around(owner), name, None)
        return None

    def device(self, value: Any) -> Any:
        """A device of the module that is read, where text names it by kind and number: "cuda:0:global"."""
        module = self.scope.find("cls", None)
        known = module.global_infos.get("vdevice", ()) if isinstance(module, ModuleName) else ()
        if not known or not isinstance(value, str):
            return value
        plain = as_vdevice(value)
        assert plain is not None
        if plain in known:
            return plain
        same = [item for item in known if item.target.kind == plain.target.kind]
        return same[plain.vdevice_id] if plain.vdevice_id < len(same) else plain

    def _callee(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            found = self.scope.find(node.id, None)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self.scope.find(node.value.id, None)
            found = self.value(node) if isinstance(owner, ModuleName) else None
        else:
            found = self.value(node)
        return found if isinstance(found, Var | GlobalVar) else None

    def _dims(self, node: ast.expr) -> Any:
        """A shape, whose dimensions may be strings: "n", "n * 2"."""
        if isinstance(node, ast.Tuple | ast.List):
            return [self._dim(item) for item in node.elts]
        return self._dim(node, whole=True)

    def _dim(self, node: ast.expr, whole: bool = False) -> Any:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            return self.value(node)
        if whole:  # an element type in the place of a shape
            return node.value
        try:
            inner = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            self.fail(node, f"{node.value!r} is no dimension")
        for part in ast.walk(inner):
            ast.copy_location(part, node)
        before, self.naming = self.naming, True
        try:
            return self.value(inner)
        finally:
            self.naming = before

    # --------------------------------------------------------------------------- definitions

    def info(self, node: ast.expr) -> StructInfo:
        """An annotation."""
        with self.source.at(node):
            return as_info(self.value(node))

    def parameters(self, node: ast.FunctionDef) -> tuple[Var, ...]:
        spec = node.args
        if spec.vararg or spec.kwarg or spec.defaults or spec.kwonlyargs or spec.posonlyargs:
            self.fail(node, "a function takes plain parameters only: no defaults, no *args")
        found = []
        for param in spec.args:
            if param.annotation is None:
                self.fail(param, f"parameter {param.arg!r} has no type", 'write x: R.Tensor((2, 3), "float32")')
            found.append(Var(param.arg, self.info(param.annotation), self.span(param)))
        for var in found:
            self.scope.define(var.name_hint, var)
        return tuple(found)

    def function(self, node: ast.FunctionDef, options: Mapping[str, Any], local: bool = False) -> Function:
        """The function that a definition describes."""
        params = self.parameters(node)
        declared = None if node.returns is None else self.info(node.returns)
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
                    return Function.create_empty(params, declared, pure, attrs, self.span(node))
                self.fail(node, f"the function {node.name} returns nothing")
            with self.source.at(node):
                seq = self.builder.normal_function(Function(params, SeqExpr(blocks, value), declared or info_of(value),
                                                            pure, attrs, self.span(node)))  # fmt: skip
        finally:
            self.builder.end_scope()
        if declared is not None:
            body = info_of(seq.body.body)
            if body is not None and declared.check(body) in (BaseCheckResult.FAIL_L0, BaseCheckResult.FAIL_L1):
                self.fail(node.returns or node, f"the function returns {body}, which is no {declared}")
        elif seq.body.struct_info_ is not None:
            seq = Function(seq.params, seq.body, seq.body.struct_info_, pure, attrs, self.span(node))
        return seq

    # ---------------------------------------------------------------------------- statements

    def statements(
        self, body: Sequence[ast.stmt], attrs: dict[str, Any]
    ) -> tuple[tuple[BindingBlock, ...], Any]:
        """The blocks of a body, and what it returns; None where it returns nothing."""
        blocks: list[BindingBlock] = []
        value: Any = None
        self.builder._begin_binding_block()
        for position, stmt in enumerate(body):
            if isinstance(stmt, ast.Return) and stmt.value is not None:
                if position != len(body) - 1:
                    self.fail(body[position + 1], "nothing comes after return")
                with self.source.at(stmt):
                    value = self.builder.normalize_argument(convert_to_expr(self.value(stmt.value)))
            elif isinstance(stmt, ast.With):
                blocks.append(self.builder._end_block())
                blocks.append(self.dataflow(stmt))
                self.builder._begin_binding_block()
            else:
                self.statement(stmt, attrs, None)
        blocks.append(self.builder._end_block())
        return merged([block for block in blocks if block.bindings]), value

    def dataflow(self, node: ast.With) -> BindingBlock:
        if len(node.items) != 1 or self.call(node.items[0].context_expr) != "dataflow":
            self.fail(node, "a graph has `with R.dataflow():` only")
        outputs: dict[str, ast.expr] = {}
        body = list(node.body)
        if isinstance(body[-1], ast.Expr) and self.call(body[-1].value) == "output":
            last = body.pop()
            assert isinstance(last, ast.Expr)
            assert isinstance(last.value, ast.Call)
            for arg in last.value.args:
                if not isinstance(arg, ast.Name):
                    self.fail(arg, "R.output takes names of variables")
                outputs[arg.id] = arg
        self.builder._begin_dataflow_block()
        with self.scope.block() as inside:
            for stmt in body:
                self.statement(stmt, {}, set(outputs))
        for name, arg in outputs.items():
            if name not in inside:
                self.fail(arg, f"{name} is not bound in this dataflow block", f"bound here: {', '.join(inside)}")
        for name, value in inside.items():
            if isinstance(value, DataflowVar):
                self.hidden.add(name)
            else:
                self.scope.define(name, value)
        return self.builder._end_block()

    def statement(self, stmt: ast.stmt, attrs: dict[str, Any], outputs: set[str] | None) -> None:
        """One statement; `outputs` are the variables of a dataflow block that are seen outside of it."""
        match stmt:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self.assign(stmt, name, value, self.info(stmt.annotation), outputs)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar"))):
                self.scope.define(name, self.size(stmt, name))
            case ast.Assign(targets=[ast.Name(id="cls")]):
                pass  # `cls = Module` repeats what is known
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if self.call(value, "tir") in ("int64", "int32") and not getattr(value, "args", None):
                    self._dimension(stmt, name, value)
                else:
                    self.assign(stmt, name, value, None, outputs)
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring, or the body of a declaration
            case ast.Expr(value=ast.Call() as call) if self.call(call) == "func_attr":
                found = self.value(call.args[0]) if len(call.args) == 1 else None
                if not isinstance(found, dict):
                    self.fail(stmt, "attributes are a dict: R.func_attr({...})")
                attrs.update(found)
            case ast.Expr(value=ast.Call(args=[info]) as call) if self.call(call) == "func_ret_struct_info":
                self.returns = self.info(info)
            case ast.Expr(value=value):
                self.assign(stmt, "_", value, None, outputs)
            case ast.If():
                self.condition(stmt)
            case ast.FunctionDef():
                self.local(stmt)
            case ast.Pass():
                pass
            case _:
                self.fail(stmt, "this has no place in a graph", "write assignments, if, return, with R.dataflow()")

    def _dimension(self, stmt: ast.stmt, name: str, value: ast.expr) -> None:
        """`n = T.int64()` declares a dimension that the signature may have named before."""
        if isinstance(self.scope.find(name, None), n.Var):
            return
        if self.call(value, "tir") != "int64":
            self.fail(stmt, f"the dimension {name} is int32", "dimensions are T.int64()")
        self.scope.define(name, n.Var(name, "int64", self.span(stmt)))

    def assign(
        self, stmt: ast.stmt, name: str, value: ast.expr, info: StructInfo | None, outputs: set[str] | None
    ) -> None:
        inner = outputs is not None and name not in outputs
        kind = DataflowVar if inner else Var
        with self.source.at(stmt):
            if self.call(value) in ("match_cast", "emit_match_cast"):
                assert isinstance(value, ast.Call)
                if len(value.args) != 2:
                    self.fail(value, "R.match_cast takes a value and StructInfo")
                data = self.builder.normalize_argument(convert_to_expr(self.value(value.args[0])))
                found = self.info(value.args[1])
                var = kind(name, info or found, self.span(stmt))
                self.builder.emit_normalized(MatchCast(var, data, found, self.span(stmt)))
            else:
                made = self.builder.normalize_value(convert_to_expr(self.value(value)))
                known = info_of(made)
                assert known is not None
                if info is not None and info.check(known) in (BaseCheckResult.FAIL_L0, BaseCheckResult.FAIL_L1):
                    self.fail(stmt, f"the value of {name} is {known}, which is no {info}")
                var = kind(name, info or known, self.span(stmt))
                self.builder.emit_normalized(VarBinding(var, made, self.span(stmt)))
        self.scope.define(name, var)

    def condition(self, stmt: ast.If) -> None:
        """`if`, whose branches both end by giving one variable its value."""
        cond = self.value(stmt.test)
        names = {_last_name(branch) for branch in (stmt.body, stmt.orelse)}
        if len(names) != 1 or None in names:
            self.fail(stmt, "both branches of `if` end by giving the same variable its value")
        (name,) = names
        assert name is not None
        branches: list[SeqExpr] = []
        for body in (stmt.body, stmt.orelse):
            self.builder.begin_scope(None)
            with self.scope.block():
                self.builder._begin_binding_block()
                for inner in body[:-1]:
                    self.statement(inner, {}, None)
                last = body[-1]
                value = getattr(last, "value", None)
                with self.source.at(last):
                    if value is None:
                        self.condition(last)  # type: ignore[arg-type]
                        result = self.scope.find(name)
                    else:
                        result = self.builder.normalize_argument(convert_to_expr(self.value(value)))
                block = self.builder._end_block()
            self.builder.end_scope()
            branches.append(SeqExpr((block,) if block.bindings else (), result))
        with self.source.at(stmt):
            made = self.builder.normalize_value(If(cond, branches[0], branches[1], self.span(stmt)))
            var = Var(name, info_of(made), self.span(stmt))
            self.builder.emit_normalized(VarBinding(var, made, self.span(stmt)))
        self.scope.define(name, var)

    def local(self, node: ast.FunctionDef) -> None:
        """A local function, which may call itself."""
        mark = decorator(self, node, "relax", "function")
        if mark is None:
            self.fail(node, "a local function is decorated with @R.function")
        options = self.arguments(mark)[1] if isinstance(mark, ast.Call) else {}
        with self.scope.block():
            var = Var(node.name, self.signature(node, bool(options.get("pure", True))), self.span(node))
            self.scope.define(node.name, var)
            func = self.function(node, options, local=True)
        self.builder.emit_normalized(VarBinding(var, func, self.span(node)))
        self.scope.define(node.name, var)

    def signature(self, node: ast.FunctionDef, pure: bool) -> FuncStructInfo | None:
        """What a definition says of its function; None where it does not say what it returns."""
        if node.returns is None or any(param.annotation is None for param in node.args.args):
            return None
        params = [self.info(param.annotation) for param in node.args.args if param.annotation is not None]
        return FuncStructInfo(params, self.info(node.returns), pure)




def _is_ellipsis(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and stmt.value.value is ...


def _last_name(body: Sequence[ast.stmt]) -> str | None:
    match body[-1] if body else None:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.If() as inner:
            return _last_name(inner.body)
    return None


def function(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> Function:
    """The function a definition describes. Raises ScriptError."""
    module = captured.get("cls")
    builder = BlockBuilder(IRModule(module.made) if isinstance(module, ModuleName) else None)
    for name in module.signatures if isinstance(module, ModuleName) else ():
        builder.take_name(name)
    p = RelaxParser(source, Scope(captured), builder)
    return p.function(node, _options(p, node))


def _options(p: RelaxParser, node: ast.FunctionDef) -> dict[str, Any]:
    mark = decorator(p, node, "relax", "function")
    named = p.arguments(mark)[1] if isinstance(mark, ast.Call) else {}
    known = {"check_well_formed", "private", "pure"}
    if not set(named) <= known:
        p.fail(mark or node, f"R.function takes {', '.join(sorted(known))}")
    return named


def signature(source: Source, node: ast.FunctionDef, captured: Mapping[str, Any]) -> FuncStructInfo | None:
    """What other functions of a module know of one before it is read."""
    p = RelaxParser(source, Scope(captured), BlockBuilder())
    try:
        return p.signature(node, bool(_options(p, node).get("pure", True)))
    except ScriptError:
        return None  # reading the function says it better


def relax_function(
    func: Callable[..., Any] | None = None, pure: bool = True, private: bool = False, check_well_formed: bool = True
) -> Any:
    """Decorator: the Python function is read as a script, and becomes a graph function. Its body never runs.

    `pure=False`: it may have side effects. `private`: without a global symbol. Raises ScriptError.
    """
    return relax_function if func is None else read_decorated(func, sys._getframe(1), "relax", "function")


register(Dialect("relax", "R", {"function": function}, vocabulary.lookup, vocabulary.names, signature))
