"""Evaluate Python expressions of a text: what all dialects share.

A subclass reads the text of one dialect. It overrides the methods under "what a dialect decides". Expressions of
constants are computed here.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NoReturn

from compiler.errors import IRError
from compiler.ir.base import GlobalVar, Node, Span
from compiler.ir.function import BaseFunc
from compiler.script import dialect
from compiler.script.scope import Scope
from compiler.script.source import ScriptError, Source

_BUILTINS: dict[str, Callable[..., Any]] = {
    "abs": abs, "bool": bool, "float": float, "int": int, "len": len, "list": list, "max": max, "min": min,
    "str": str, "sum": sum, "tuple": tuple,
}  # fmt: skip
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_MAX_EXPONENT = 1024
# The methods that read expressions.
_RULES: dict[type[ast.AST], str] = {kind: f"value_{kind.__name__}" for kind in ast.expr.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Namespace:
    """The value of a captured name that stands for a dialect ("tir"), or for the common part ("ir")."""

    name: str


@dataclass(frozen=True, slots=True)
class SizeName:
    """A size that a text names outside of its functions, by `n = TypeVar("n")`.
    Each function has one of its own."""

    name: str


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The module being read: `Module.f(x)` and `cls.f(x)` call its function f.

    `signatures` has what each function's dialect knows of it before it is read. `global_infos` is what the module holds
    beside its functions, as far as it was read. `made` has kernels that its functions make while they are read.
    """

    signatures: Mapping[str, Any]
    global_infos: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    made: dict[GlobalVar, BaseFunc] = field(default_factory=dict)


class Parser:
    """Reads one definition. It has the place, the known names, and the values of expressions."""

    SPACE: ClassVar[str] = "ir"
    """The dialect that `call` looks for."""
    EXPECTED: ClassVar[str] = "write arithmetic and calls of the dialect's own names"

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope

    # ------------------------------------------------------------------------- place and names

    def span(self, node: ast.AST) -> Span:
        return self.source.span(node)

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> NoReturn:
        self.source.fail(node, message, hint)

    def unknown(self, node: ast.AST, what: str, name: str, known: Iterable[str]) -> ScriptError:
        """Return the error for an unknown name. Its hint lists names that look like it, or some of all."""
        names = sorted(set(known))
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"accepted here: {', '.join(names[:40])}"
        return self.source.error(node, f"{what} {name!r}", hint if names else None)

    def member(self, node: ast.AST) -> tuple[str, str] | None:
        """("tir", "serial") for `T.serial`; None for anything that is not a name of a dialect."""
        if not isinstance(node, ast.Attribute):
            return None
        path = []
        current: ast.AST = node
        while isinstance(current, ast.Attribute):
            path.append(current.attr)
            current = current.value
        if not isinstance(current, ast.Name):
            return None
        space = namespace(self.scope.find(current.id, None))
        return (space, ".".join(reversed(path))) if space is not None else None

    def call(self, node: ast.AST, space: str | None = None) -> str | None:
        """Return the name `serial` of a call `T.serial(...)`, else None.
        `space` is the dialect, by default the parser's own."""
        found = self.member(node.func) if isinstance(node, ast.Call) else None
        return found[1] if found is not None and found[0] == (space or self.SPACE) else None

    # ------------------------------------------------------------------------------- values

    def value(self, node: ast.AST) -> Any:
        """Return what an expression stands for: IR, or a Python value where it is made of constants."""
        rule = getattr(self, _RULES.get(type(node), ""), None)
        if rule is None:
            self.fail(node, f"{_kind(node)} has no place in a script", self.EXPECTED)
        try:  # as `Source.at` does, without its cost for each node
            return rule(node)
        except ScriptError:
            raise
        except IRError as error:
            self.fail(node, error.message, error.hint)

    def constant(self, node: ast.AST, kind: type, what: str) -> Any:
        """A Python value of type `kind`."""
        found = self.value(node)
        if kind is int:
            found = self.plain(found)
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            self.fail(node, f"{what} is a constant {kind.__name__}, not {found!r}")
        return found

    def arguments(self, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        """The values of a call's arguments."""
        args: list[Any] = []
        for arg in call.args:
            if isinstance(arg, ast.Starred):
                args.extend(self.value(arg.value))
            else:
                args.append(self.value(arg))
        for keyword in call.keywords:
            if keyword.arg is None:
                self.fail(keyword.value, "`**` has no place in a script")
        return args, {str(k.arg): self.value(k.value) for k in call.keywords}

    # --------------------------------------------------------------------- what a dialect decides

    def plain(self, value: Any) -> Any:
        """Return the integer of a constant of the dialect; anything else unchanged."""
        return value

    def unary(self, node: ast.UnaryOp, operand: Any) -> Any:
        """An operator applied to IR."""
        self.fail(node, f"the operator of {ast.unparse(node)} has no place in a script")

    def binary(self, node: ast.BinOp, a: Any, b: Any) -> Any:
        """An operator applied to values of which one is IR."""
        self.fail(node, f"the operator of {ast.unparse(node)} has no place in a script")

    def compare(self, node: ast.Compare, op: ast.cmpop, a: Any, b: Any) -> Any:
        """A comparison of values of which one is IR."""
        self.fail(node, f"the comparison {ast.unparse(node)} has no place in a script")

    def both(self, node: ast.AST, op: ast.boolop, parts: list[Any]) -> Any:
        """Conditions, not all of them constants, joined by `and` or `or`."""
        self.fail(node, f"{ast.unparse(node)} has no place in a script")

    def choose(self, node: ast.IfExp, test: Any) -> Any:
        """`a if test else b`, where `test` is IR."""
        self.fail(node, f"{ast.unparse(node)} has no place in a script")

    def special_call(self, node: ast.Call) -> tuple[Any] | None:
        """Return, in a tuple, the value of a call that reads its arguments in its own way.
        None for any other call."""
        return None

    def attribute(self, node: ast.Attribute, owner: Any) -> Any:
        """An attribute of IR."""
        try:
            return getattr(owner, node.attr)
        except AttributeError:
            self.fail(node, f"{ast.unparse(node.value)} has no attribute {node.attr!r}")

    def may_call(self, node: ast.Attribute, callee: Any) -> bool:
        """Whether calling an attribute only builds IR."""
        return False

    def function_of_module(self, node: ast.Attribute, module: ModuleName) -> Any:
        """Return what `cls.f` stands for."""
        self.fail(node, f"{ast.unparse(node)} has no place in a script")

    def size(self, node: ast.AST, name: str) -> Any:
        """A new variable for a size."""
        self.fail(node, f"{name} is a size, which has no place here")

    def element(self, node: ast.Subscript, owner: Any) -> Any:
        """An element of something that is no Python value."""
        self.fail(node.value, f"{ast.unparse(node.value)} has no elements")

    # -------------------------------------------------------------------------------- rules

    def value_Constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, bool | int | float | str | None):
            return node.value
        raise self.source.error(node, f"a constant {node.value!r} has no place in a script")

    def value_Name(self, node: ast.Name) -> Any:
        try:
            found = self.scope.find(node.id)
        except KeyError:
            pass
        else:
            return self._size(node, found) if isinstance(found, SizeName) else found
        if node.id in _BUILTINS:
            return _BUILTINS[node.id]
        raise self.unknown(node, "there is no name", node.id, self.scope.names())

    def _size(self, node: ast.AST, name: SizeName) -> Any:
        """The variable, in the function being read, for a size that is named outside of it."""
        found = self.size(node, name.name)
        self.scope.define_outermost(name.name, found)
        return found

    def value_Attribute(self, node: ast.Attribute) -> Any:
        member = self.member(node)
        if member is not None:
            space = dialect.find(member[0])
            found = space.expression(member[1]) if space is not None else None
            if found is None:
                prefix = space.prefix if space is not None else "I"
                known = (f"{prefix}.{name}" for name in (space.names() if space is not None else ()))
                raise self.unknown(node, "TVMScript has no expression", f"{prefix}.{member[1]}", known)
            return found
        owner = self.value(node.value)
        if isinstance(owner, ModuleName):
            if node.attr not in owner.signatures:
                raise self.unknown(node, "the module has no function", node.attr, owner.signatures)
            return self.function_of_module(node, owner)
        if node.attr.startswith("_"):
            self.fail(node, f"{node.attr!r} is private")
        if self.source.of_program and not isinstance(owner, ModuleName | Node):
            # Code of the running program: what it says of its own modules and objects is Python.
            try:
                return getattr(owner, node.attr)
            except AttributeError as error:
                self.fail(node, str(error))
        return self.attribute(node, owner)

    def value_Call(self, node: ast.Call) -> Any:
        special = self.special_call(node)
        if special is not None:
            return special[0]
        callee = self.value(node.func)
        if not self._may_call(node.func, callee):
            names = ", ".join(f"{prefix}.*" for prefix, name in dialect.prefixes().items() if name == self.SPACE)
            hint = f"only {names} and plain arithmetic are"
            self.fail(node.func, f"{ast.unparse(node.func)} cannot be called in a script", hint)
        args, named = self.arguments(node)
        try:
            return callee(*args, **named)
        except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
            if isinstance(error, IRError):
                raise
            self.fail(node, f"{ast.unparse(node.func)}: {error}")

    def _may_call(self, node: ast.expr, callee: Any) -> bool:
        """Whether a call only builds IR or computes a constant.
        This holds for a dialect's own names, a few builtins, functions of the module being read, and what the dialect
        allows. A decorated function is code of the running program. It may also call the program's other functions,
        which take and return IR."""
        if self.member(node) is not None or self.source.of_program:
            return callable(callee)
        if isinstance(node, ast.Name):
            return callee is _BUILTINS.get(node.id)
        if not isinstance(node, ast.Attribute):
            return False
        if not isinstance(callee, partial) and isinstance(self.value(node.value), ModuleName):
            return True
        return self.may_call(node, callee)

    def value_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if not isinstance(owner, tuple | list | dict | str):
            return self.element(node, owner)
        try:
            return owner[self.value(node.slice)]
        except (IndexError, KeyError, TypeError) as error:
            self.fail(node, f"{ast.unparse(node)}: {error}")

    def value_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        return _UNARY[type(node.op)](operand) if is_plain(operand) else self.unary(node, operand)

    def value_BinOp(self, node: ast.BinOp) -> Any:
        a, b = self.value(node.left), self.value(node.right)
        rule = _BINARY.get(type(node.op))
        if rule is None:
            self.fail(node, f"the operator of {ast.unparse(node)} has no place in a script")
        if not (is_plain(a) and is_plain(b)):
            return self.binary(node, a, b)
        if isinstance(node.op, ast.Pow | ast.LShift) and not (isinstance(b, int | float) and abs(b) <= _MAX_EXPONENT):
            self.fail(node, "the exponent is too large")
        if not isinstance(node.op, ast.Add) and not all(isinstance(x, int | float) for x in (a, b)):
            self.fail(node, f"{ast.unparse(node)} is no arithmetic on numbers")
        try:
            found = rule(a, b)
        except (TypeError, ArithmeticError) as error:
            self.fail(node, str(error))
        if isinstance(found, int) and found.bit_length() > _MAX_EXPONENT:
            self.fail(node, "the number is too large")
        return found

    def value_BoolOp(self, node: ast.BoolOp) -> Any:
        parts = [self.value(item) for item in node.values]
        if all(map(is_plain, parts)):
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        return self.both(node, node.op, parts)

    def value_Compare(self, node: ast.Compare) -> Any:
        operands = [self.value(item) for item in (node.left, *node.comparators)]
        found: list[Any] = []
        for op, a, b in zip(node.ops, operands, operands[1:]):
            rule = _COMPARE.get(type(op))
            if rule is None:
                self.fail(node, f"the comparison {ast.unparse(node)} has no place in a script")
            found.append(rule(a, b) if is_plain(a) and is_plain(b) else self.compare(node, op, a, b))
        if len(found) == 1:
            return found[0]
        return all(found) if all(map(is_plain, found)) else self.both(node, ast.And(), found)

    def value_IfExp(self, node: ast.IfExp) -> Any:
        test = self.value(node.test)
        return self.value(node.body if test else node.orelse) if is_plain(test) else self.choose(node, test)

    def value_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.value(item) for item in node.elts)

    def value_List(self, node: ast.List) -> list[Any]:
        return [self.value(item) for item in node.elts]

    def value_Dict(self, node: ast.Dict) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, item in zip(node.keys, node.values):
            if key is None:
                self.fail(node, "`**` has no place in a script")
            found[self.constant(key, str, "a key")] = self.value(item)
        return found

    def value_JoinedStr(self, node: ast.JoinedStr) -> str:
        """An f-string of constants, as in names of blocks."""
        out: list[str] = []
        for part in node.values:
            found = self.value(part.value if isinstance(part, ast.FormattedValue) else part)
            if not isinstance(found, str | int | float):
                self.fail(part, "an f-string is made of constants")
            out.append(str(found))
        return "".join(out)


def is_plain(operand: Any) -> bool:
    """Whether an operand is a Python value, which Python computes with."""
    return isinstance(operand, bool | int | float | str | tuple | list | None)


def namespace(value: Any) -> str | None:
    """The name of the dialect that `value` stands for, or "ir"; None when it stands for none."""
    found = value.name if isinstance(value, Namespace) else getattr(value, "__script_namespace__", None)
    return found if isinstance(found, str) else None


def decorator(p: Parser, node: ast.FunctionDef | ast.ClassDef, space: str, name: str) -> ast.expr | None:
    """The decorator `T.prim_func` (or with arguments) of a definition, if it has it."""
    for item in node.decorator_list:
        if p.member(item.func if isinstance(item, ast.Call) else item) == (space, name):
            return item
    return None


def _kind(node: ast.AST) -> str:
    return {ast.Lambda: "a lambda", ast.Await: "await", ast.NamedExpr: "`:=`", ast.Slice: "a slice"}.get(
        type(node), f"this ({type(node).__name__})"
    )
