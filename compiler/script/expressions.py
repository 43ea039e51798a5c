"""Python expressions as IR expressions, or as Python values where they are made of constants."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from compiler.arith.analyzer import simplify
from compiler.errors import IRError
from compiler.ir.base import GlobalVar
from compiler.ir.structural import structural_equal
from compiler.script import vocabulary
from compiler.script.parser import ModuleName, Parser
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

_BUILTINS: dict[str, Callable[..., Any]] = {
    "abs": abs, "bool": bool, "float": float, "int": int, "len": len, "list": list, "max": max, "min": min,
    "str": str, "sum": sum, "tuple": tuple,
}  # fmt: skip
_INFIX: dict[type[ast.operator], tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    ast.Add: (operator.add, partial(vocabulary.binary, n.Add)),
    ast.Sub: (operator.sub, partial(vocabulary.binary, n.Sub)),
    ast.Mult: (operator.mul, partial(vocabulary.binary, n.Mul)),
    ast.Div: (operator.truediv, vocabulary.divide),
    ast.FloorDiv: (operator.floordiv, partial(vocabulary.binary, n.FloorDiv)),
    ast.Mod: (operator.mod, partial(vocabulary.binary, n.FloorMod)),
    ast.Pow: (operator.pow, vocabulary.lookup("pow")),
    ast.LShift: (operator.lshift, vocabulary.lookup("shift_left")),
    ast.RShift: (operator.rshift, vocabulary.lookup("shift_right")),
    ast.BitAnd: (operator.and_, vocabulary.lookup("bitwise_and")),
    ast.BitOr: (operator.or_, vocabulary.lookup("bitwise_or")),
    ast.BitXor: (operator.xor, vocabulary.lookup("bitwise_xor")),
}
_COMPARE: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], type[n.BinaryOp]]] = {
    ast.Eq: (operator.eq, n.EQ),
    ast.NotEq: (operator.ne, n.NE),
    ast.Lt: (operator.lt, n.LT),
    ast.LtE: (operator.le, n.LE),
    ast.Gt: (operator.gt, n.GT),
    ast.GtE: (operator.ge, n.GE),
}
_MAX_EXPONENT = 1024


def value(p: Parser, node: ast.AST) -> Any:
    """What an expression stands for: an IR expression, or a Python value where it is made of constants."""
    rule = _RULES.get(type(node))
    if rule is None:
        p.fail(node, f"{_kind(node)} has no place in a script", "write arithmetic, accesses A[i, j] and calls T.f(x)")
    with p.source.at(node):
        return rule(p, node)


def expr(p: Parser, node: ast.AST) -> PrimExpr:
    """What an expression stands for, as an IR expression."""
    found = value(p, node)
    with p.source.at(node):
        return ops.as_expr(found)


def exprs(p: Parser, node: ast.AST) -> tuple[PrimExpr, ...]:
    """A tuple or list of expressions; one expression is a tuple of itself."""
    found = value(p, node)
    items = found if isinstance(found, tuple | list) else (found,)
    with p.source.at(node):
        return tuple(map(ops.as_expr, items))


def constant(p: Parser, node: ast.AST, kind: type, what: str) -> Any:
    """A Python value of type `kind`."""
    found = value(p, node)
    if isinstance(found, n.IntImm) and kind is int:
        found = found.value
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        p.fail(node, f"{what} is a constant {kind.__name__}, not {found!r}")
    return found


def condition(p: Parser, node: ast.expr) -> PrimExpr:
    """An expression that is true or false."""
    found = expr(p, node)
    if found.dtype != "bool":
        p.fail(node, f"a condition is a bool, not {found.dtype}")
    return found


def arguments(p: Parser, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """The values of a call's arguments."""
    args: list[Any] = []
    for arg in call.args:
        if isinstance(arg, ast.Starred):
            args.extend(value(p, arg.value))
        else:
            args.append(value(p, arg))
    for keyword in call.keywords:
        if keyword.arg is None:
            p.fail(keyword.value, "`**` has no place in a script")
    return args, {str(k.arg): value(p, k.value) for k in call.keywords}


def extent(low: PrimExpr, high: PrimExpr) -> PrimExpr:
    """high - low; where `high` is spelled low + x, that x."""
    if isinstance(low, n.IntImm):
        if isinstance(high, n.IntImm):
            return ops.const(high.value - low.value, high.dtype)
        if low.value == 0:
            return high
    if isinstance(high, n.Add) and structural_equal(high.a, low):
        return high.b
    return simplify(ops.sub(high, low))


# ------------------------------------------------------------------------------------- rules


def _constant(p: Parser, node: ast.Constant) -> Any:
    if isinstance(node.value, bool | int | float | str | None):
        return node.value
    raise p.source.error(node, f"a constant {node.value!r} has no place in a script")


def _name(p: Parser, node: ast.Name) -> Any:
    try:
        return p.scope.find(node.id)
    except KeyError:
        pass
    if node.id in _BUILTINS:
        return _BUILTINS[node.id]
    raise p.unknown(node, "there is no name", node.id, p.scope.names())


def _attribute(p: Parser, node: ast.Attribute) -> Any:
    member = p.member(node)
    if member is not None:
        found = vocabulary.lookup(member[1]) if member[0] == "tir" else None
        if found is None:
            known = (f"T.{x}" for x in vocabulary.names())
            raise p.unknown(node, "TVMScript has no expression", f"T.{member[1]}", known)
        return found
    owner = value(p, node.value)
    if isinstance(owner, ModuleName):
        if node.attr not in owner.returns:
            raise p.unknown(node, "the module has no function", node.attr, owner.returns)
        return _function_call(node.attr, owner.returns[node.attr])
    if node.attr.startswith("_"):
        p.fail(node, f"{node.attr!r} is private")
    if isinstance(owner, n.Buffer) and node.attr == "vload":
        return partial(_vload, owner)
    try:
        return getattr(owner, node.attr)
    except AttributeError:
        p.fail(node, f"{ast.unparse(node.value)} has no attribute {node.attr!r}")


def _function_call(name: str, dtype: str) -> Callable[..., PrimExpr]:
    return lambda *args: n.Call(dtype, GlobalVar(name), tuple(map(ops.as_expr, args)))


def _vload(buffer: n.Buffer, indices: Any, predicate: Any = None) -> PrimExpr:
    items = indices if isinstance(indices, tuple | list) else (indices,)
    return n.BufferLoad(buffer, tuple(map(ops.as_expr, items)), None if predicate is None else ops.as_expr(predicate))


def _call(p: Parser, node: ast.Call) -> Any:
    if p.call(node) == "Let":
        return _let(p, node)
    if p.call(node) == "meta_var" and len(node.args) == 1:
        return value(p, node.args[0])
    callee = value(p, node.func)
    if not _may_call(p, node.func, callee):
        p.fail(node.func, f"{ast.unparse(node.func)} cannot be called in a script", "only T.* and plain arithmetic are")
    args, named = arguments(p, node)
    try:
        return callee(*args, **named)
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if isinstance(error, IRError):
            raise
        p.fail(node, f"{ast.unparse(node.func)}: {error}")


def _may_call(p: Parser, node: ast.expr, callee: Any) -> bool:
    """Whether calling does no more than build IR or compute a constant: TVMScript's own names, a few builtins,
    and the methods of expressions and buffers that build expressions."""
    if p.member(node) is not None:
        return callable(callee)
    if isinstance(node, ast.Name):
        return callee is _BUILTINS.get(node.id)
    if isinstance(node, ast.Attribute):
        if isinstance(callee, partial):
            return callee.func is _vload
        owner = value(p, node.value)
        if isinstance(owner, ModuleName):
            return True
        return isinstance(owner, PrimExpr) and node.attr == "astype"
    return False


def _let(p: Parser, node: ast.Call) -> PrimExpr:
    """T.Let(body, where={v: value})."""
    where = next((k.value for k in node.keywords if k.arg == "where"), None)
    if len(node.args) != 1 or not isinstance(where, ast.Dict):
        p.fail(node, "T.Let takes a body and where={name: value}")
    bound: list[tuple[n.Var, PrimExpr]] = []
    with p.scope.block():
        for key, item in zip(where.keys, where.values):
            if not isinstance(key, ast.Name):
                p.fail(key or where, "a name is bound by T.Let")
            given = expr(p, item)
            var = n.Var(key.id, given.dtype, p.span(key))
            p.scope.define(key.id, var)
            bound.append((var, given))
        body = expr(p, node.args[0])
    for var, given in reversed(bound):
        body = n.Let(var, given, body)
    return body


def _subscript(p: Parser, node: ast.Subscript) -> Any:
    owner = value(p, node.value)
    if isinstance(owner, n.Buffer):
        return n.BufferLoad(owner, point(p, owner, node), None, p.span(node))
    if isinstance(owner, vocabulary.TypeName):
        p.fail(node, f"T.{owner.dtype} has no elements")
    if not isinstance(owner, tuple | list | dict | str):
        p.fail(node.value, f"{ast.unparse(node.value)} is no buffer", "only buffers have elements")
    try:
        return owner[value(p, node.slice)]
    except (IndexError, KeyError, TypeError) as error:
        p.fail(node, f"{ast.unparse(node)}: {error}")


def point(p: Parser, buffer: n.Buffer, node: ast.Subscript) -> tuple[PrimExpr, ...]:
    """The indices of an access; a slice of constant length is a vector."""
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(items) != len(buffer.shape):
        p.fail(node, f"buffer {buffer.name!r} has {len(buffer.shape)} dimensions, indexed with {len(items)}")
    return tuple(_ramp(p, item) if isinstance(item, ast.Slice) else _index(p, item) for item in items)


def _index(p: Parser, node: ast.expr) -> PrimExpr:
    found = expr(p, node)
    if "int" not in found.dtype:
        p.fail(node, f"an index is an integer, not {found.dtype}")
    return found


def _ramp(p: Parser, node: ast.Slice) -> PrimExpr:
    if node.upper is None:
        p.fail(node, "a slice says where it ends")
    low = ops.const(0) if node.lower is None else _index(p, node.lower)
    step = ops.const(1) if node.step is None else _index(p, node.step)
    low, high = ops.match_types(low, _index(p, node.upper))
    length, stride = ops.as_int(simplify(extent(low, high))), ops.as_int(step)
    if length is None or stride is None or stride < 1 or length < 1:
        p.fail(node, "a vector has a constant, positive length", "write A[i:i + 8], or a loop")
    lanes = -(-length // stride)
    return low if lanes == 1 else n.Ramp(low, ops.cast(low.dtype, step), lanes)


def _unary(p: Parser, node: ast.UnaryOp) -> Any:
    operand = value(p, node.operand)
    if isinstance(node.op, ast.Not):
        return not operand if _plain(operand) else vocabulary.lookup("Not")(operand)
    if isinstance(node.op, ast.USub):
        return -operand if _plain(operand) else vocabulary.negate(operand)
    if isinstance(node.op, ast.UAdd):
        return operand
    return ~operand if _plain(operand) else vocabulary.lookup("bitwise_not")(operand)


def _binary(p: Parser, node: ast.BinOp) -> Any:
    a, b = value(p, node.left), value(p, node.right)
    rule = _INFIX.get(type(node.op))
    if rule is None:
        p.fail(node, f"the operator of {ast.unparse(node)} has no place in a script")
    if not (_plain(a) and _plain(b)):
        return rule[1](a, b)
    if isinstance(node.op, ast.Pow | ast.LShift) and not (isinstance(b, int | float) and abs(b) <= _MAX_EXPONENT):
        p.fail(node, "the exponent is too large")
    if not isinstance(node.op, ast.Add) and not all(isinstance(x, int | float) for x in (a, b)):
        p.fail(node, f"{ast.unparse(node)} is no arithmetic on numbers")
    try:
        found = rule[0](a, b)
    except (TypeError, ArithmeticError) as error:
        p.fail(node, str(error))
    if isinstance(found, int) and found.bit_length() > _MAX_EXPONENT:
        p.fail(node, "the number is too large")
    return found


def _plain(operand: Any) -> bool:
    return isinstance(operand, bool | int | float | str | tuple | list | None)


def _bool(p: Parser, node: ast.BoolOp) -> Any:
    parts = [value(p, item) for item in node.values]
    if all(map(_plain, parts)):
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    return vocabulary.lookup("And" if isinstance(node.op, ast.And) else "Or")(*parts)


def _compare(p: Parser, node: ast.Compare) -> Any:
    operands = [value(p, item) for item in (node.left, *node.comparators)]
    found: list[Any] = []
    for op, a, b in zip(node.ops, operands, operands[1:]):
        rule = _COMPARE.get(type(op))
        if rule is None:
            p.fail(node, f"the comparison {ast.unparse(node)} has no place in a script")
        found.append(rule[0](a, b) if _plain(a) and _plain(b) else vocabulary.binary(rule[1], a, b))
    if len(found) == 1:
        return found[0]
    return all(found) if all(map(_plain, found)) else vocabulary.lookup("And")(*found)


def _conditional(p: Parser, node: ast.IfExp) -> Any:
    test = value(p, node.test)
    if _plain(test):
        return value(p, node.body if test else node.orelse)
    return vocabulary.lookup("if_then_else")(test, value(p, node.body), value(p, node.orelse))


def _dict(p: Parser, node: ast.Dict) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, item in zip(node.keys, node.values):
        if key is None:
            p.fail(node, "`**` has no place in a script")
        found[constant(p, key, str, "a key")] = value(p, item)
    return found


def _joined(p: Parser, node: ast.JoinedStr) -> str:
    """An f-string of constants, as in names of blocks."""
    out: list[str] = []
    for part in node.values:
        found = value(p, part.value if isinstance(part, ast.FormattedValue) else part)
        if not isinstance(found, str | int | float):
            p.fail(part, "an f-string is made of constants")
        out.append(str(found))
    return "".join(out)


def _kind(node: ast.AST) -> str:
    return {ast.Lambda: "a lambda", ast.Await: "await", ast.NamedExpr: "`:=`", ast.Slice: "a slice"}.get(
        type(node), f"this ({type(node).__name__})"
    )


_RULES: dict[type[ast.AST], Callable[[Parser, Any], Any]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _bool,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.Tuple: lambda p, node: tuple(value(p, item) for item in node.elts),
    ast.List: lambda p, node: [value(p, item) for item in node.elts],
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
}

