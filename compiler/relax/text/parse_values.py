"""Values of a graph function's text: calls, operators, dimensions, devices, annotations."""

from __future__ import annotations

import ast
import operator as python
from collections.abc import Callable
from typing import Any

from compiler.errors import ArgumentError, IRError
from compiler.ir.base import GlobalVar, Node, RelaxExpr
from compiler.ir.vdevice import as_vdevice
from compiler.python_text import parsed_expression
from compiler.relax import nodes as r
from compiler.relax.block_builder import BlockBuilder
from compiler.relax.op.core.registry import OPERATORS
from compiler.relax.text import vocabulary
from compiler.relax.text.vocabulary import as_info, fit
from compiler.runtime.core.device import Device
from compiler.script.parser import ModuleName, Namespace, Parser, SizeName
from compiler.script.scope import Scope
from compiler.script.source import Source
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: python.add, ast.Sub: python.sub, ast.Mult: python.mul, ast.Div: python.truediv,
    ast.FloorDiv: python.floordiv, ast.Mod: python.mod, ast.Pow: python.pow,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: python.lt,
    ast.LtE: python.le,
    ast.Gt: python.gt,
    ast.GtE: python.ge,
}


_KERNEL = r.FuncStructInfo.opaque_func(ret=r.TupleStructInfo(()))


_TO_DEVICES = ("hint_on_device", "to_vdevice")
"""Operators whose second argument is a device."""


class ValueParser(Parser):
    """Reads the values of graph functions. Kernels that they call join the module of `builder`."""

    SPACE = "relax"
    EXPECTED = "write calls of R's operators, tuples and fields"

    def __init__(self, source: Source, scope: Scope, builder: BlockBuilder) -> None:
        super().__init__(source, scope)
        self.builder = builder
        self.naming = False  # whether a name that is not known is a new dimension
        self.hidden: set[str] = set()  # names of variables of dataflow blocks that were read

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
        if node.attr != "astype" or not isinstance(owner, r.Expr):
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
            r.set_struct_info(found, _KERNEL)
        elif isinstance(known, r.StructInfo):
            r.set_struct_info(found, known)
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
        if self.call(node, "tir") == "index_map" and len(node.args) == 1 and isinstance(node.args[0], ast.Lambda):
            return (ast.unparse(node.args[0]),)
        if name == "layout_transform":
            node = _with_maps_as_text(node)
        operator = None if name is None else OPERATORS.get(f"relax.{name}")
        if operator is not None or name == "call_packed":
            if name in _TO_DEVICES:
                node = self._with_devices(node)
            args, named = self.arguments(node)
            if name in _TO_DEVICES:
                args = [*args[:1], *map(self.device, args[1:2]), *args[2:]]
                named = {key: self.device(value) if key == "dst_vdevice" else value for key, value in named.items()}
            try:
                if operator is None:
                    return (vocabulary.call_packed(*args, **named, span=self.span(node)),)
                return (operator.call(*fit(operator, args, named), self.span(node)),)
            except ArgumentError as error:
                self.fail(node, error.message, error.hint)
            except IRError:
                raise
            except TypeError as error:
                self.fail(node, f"{ast.unparse(node.func)}: {error}")
        if self.member(node.func) is None and isinstance(node.func, ast.Name | ast.Attribute | ast.Subscript):
            callee = self._callee(node.func)
            if callee is not None:
                args, _ = self.arguments(node)
                return (r.Call(callee, tuple(map(r.convert_to_expr, args)), None, None, self.span(node)),)
        return None

    def _with_devices(self, node: ast.Call) -> ast.Call:
        """A call with devices of the program around, such as `tvm.cuda(0)`, by their names: "cuda:0"."""

        def named(value: ast.expr) -> ast.expr:
            made = self._around(value.func) if isinstance(value, ast.Call) else None
            if getattr(made, "__module__", None) != Device.__module__ or not callable(made):
                return value
            assert isinstance(value, ast.Call)
            device = made(*[self.constant(arg, int, "a device's number") for arg in value.args])
            kind = "llvm" if device.device_type == "cpu" else device.device_type
            return ast.copy_location(ast.Constant(f"{kind}:{device.device_id}"), value)

        keywords = [ast.keyword(keyword.arg, named(keyword.value)) for keyword in node.keywords]
        return ast.copy_location(ast.Call(node.func, list(map(named, node.args)), keywords), node)

    def kernel(self, node: ast.Call) -> r.Call:
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
        """Return what a dotted name of the program around the script stands for; None where it is nothing."""
        match node:
            case ast.Name(id=name):
                found = self.scope.find(name, None)
                return None if isinstance(found, Node | Namespace | ModuleName | SizeName) else found
            case ast.Attribute(value=owner, attr=name) if not name.startswith("_"):
                return getattr(self._around(owner), name, None)
        return None

    def device(self, value: Any) -> Any:
        """A device of the module, which text names by kind and number: "cuda:0:global"."""
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
        return found if isinstance(found, r.Var | GlobalVar) else None

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
            inner = parsed_expression(node.value)
        except SyntaxError:
            self.fail(node, f"{node.value!r} is no dimension")
        for part in ast.walk(inner):
            ast.copy_location(part, node)
        before, self.naming = self.naming, True
        try:
            return self.value(inner)
        finally:
            self.naming = before

    def info(self, node: ast.expr) -> r.StructInfo:
        """An annotation."""
        with self.source.at(node):
            return as_info(self.value(node))


def _with_maps_as_text(node: ast.Call) -> ast.Call:
    """A call with its lambdas, maps of indices, as text. No lambda runs."""

    def text(value: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Constant(ast.unparse(value)), value) if isinstance(value, ast.Lambda) else value

    named = [ast.keyword(keyword.arg, text(keyword.value)) for keyword in node.keywords]
    return ast.copy_location(ast.Call(node.func, list(map(text, node.args)), named), node)
