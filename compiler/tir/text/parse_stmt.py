"""Python statements as IR statements."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import lanes_of
from compiler.tir import hooks, ops
from compiler.tir import nodes as n
from compiler.tir.ir_builder import closed
from compiler.tir.nodes import ForKind, Stmt
from compiler.tir.text import parse_buffers as buffers
from compiler.tir.text.macro import Macro
from compiler.tir.text.parse_blocks import AXES, axis, block
from compiler.tir.text.parse_definitions import DEFINITIONS, Item, launch_thread, let, remap
from compiler.tir.text.parse_expr import TirParser, extent
from compiler.tir.text.vocabulary import TypeName, binary, divide

LOOPS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorized": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "thread_binding": ForKind.THREAD_BINDING,
}


def body(p: TirParser, nodes: Sequence[ast.stmt]) -> Stmt:
    """The statements of an indented block, with a scope of their own."""
    with p.scope.block():
        return closed([item for item in items(p, nodes) if item is not None])


def items(p: TirParser, nodes: Sequence[ast.stmt]) -> list[Item]:
    found: list[Item] = []
    for node in nodes:
        rule = _RULES.get(type(node))
        if rule is None:
            accepted = "accepted here: for, while, if, with, assert, assignments, T.* calls"
            p.fail(node, f"this statement ({type(node).__name__}) has no place in a script", accepted)
        with p.source.at(node):
            result = rule(p, node)
        found.extend(result if isinstance(result, list) else [result])
    return found


# ------------------------------------------------------------------------------------- loops


def _for(p: TirParser, node: ast.For) -> Stmt:
    if node.orelse:
        p.fail(node.orelse[0], "a loop has no else")
    names = list(node.target.elts) if isinstance(node.target, ast.Tuple) else [node.target]
    if not all(isinstance(name, ast.Name) for name in names):
        p.fail(node.target, "loop variables are names")
    call = node.iter
    plain = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"
    kind = "range" if plain else p.call(call)
    if not isinstance(call, ast.Call) or kind not in {"range", "grid", *LOOPS}:
        accepted = ", ".join(["range", "T.grid", *(f"T.{x}" for x in LOOPS)])
        p.fail(call, f"cannot loop over {ast.unparse(call)}", f"accepted here: {accepted}")
    if kind == "grid":
        return _grid(p, node, names, call)
    if len(names) != 1:
        p.fail(node.target, f"one loop has one variable, not {len(names)}", "use T.grid for a nest")
    args, named = p.arguments(call)
    thread, notes = named.pop("thread", None), named.pop("annotations", None)
    annotations = {key: _truth(value) for key, value in (notes or {}).items()}
    for key in ("start", "stop", "end"):
        if key in named:
            args.append(named.pop(key))
    if kind == "thread_binding" and thread is None and args and isinstance(args[-1], str):
        thread = args.pop()
    step = ops.as_int(args.pop() if len(args) == 3 else named.pop("step", None) or 1)
    if named or not 1 <= len(args) <= 2 or step is None or step < 1:
        p.fail(call, "a loop is over (stop), (start, stop) or (start, stop, step), with a positive constant as step")
    if (thread is not None) != (kind == "thread_binding"):
        p.fail(call, 'T.thread_binding, and no other loop, names a thread: thread="threadIdx.x"')
    low, high = ops.match_types(args[0] if len(args) == 2 else 0, args[-1])
    if step > 1:
        return _strided(p, node, names[0], (low, high, step), LOOPS.get(kind, ForKind.SERIAL), annotations)
    dom = n.Range(low, extent(low, high))
    binding = None if thread is None else n.IterVar(None, n.Var(thread, low.dtype), n.IterType.THREAD_INDEX, thread)
    return _loop(p, node, names[0], dom, LOOPS.get(kind, ForKind.SERIAL), binding, annotations,
                 lambda: body(p, node.body))  # fmt: skip


def _strided(
    p: TirParser, node: ast.For, name: ast.expr, bounds: tuple[n.PrimExpr, n.PrimExpr, int], kind: ForKind,
    annotations: dict[str, Any],
) -> Stmt:  # fmt: skip
    """Read a loop over each `step`-th number.
    Its variable counts steps, and the name stands for the number."""
    low, high, step = bounds
    count = hooks.arithmetic().simplify(ops.floordiv(ops.add(ops.sub(high, low), step - 1), step))

    def inside() -> Stmt:
        assert isinstance(name, ast.Name)
        p.scope.define(name.id, ops.add(low, ops.mul(p.scope.find(name.id), step)))
        return body(p, node.body)

    return _loop(p, node, name, n.Range(ops.const(0, count.dtype), count), kind, None, annotations, inside)


def _grid(p: TirParser, node: ast.For, names: list[ast.expr], call: ast.Call) -> Stmt:
    args, named = p.arguments(call)
    if named or len(args) != len(names):
        p.fail(call, f"T.grid has {len(args)} extents for {len(names)} variables")
    sizes = [ops.as_expr(a) for a in args]

    def nest(position: int) -> Stmt:
        if position == len(names):
            return body(p, node.body)
        dom = n.Range(ops.const(0, sizes[position].dtype), sizes[position])
        return _loop(p, node, names[position], dom, ForKind.SERIAL, None, {}, lambda: nest(position + 1))

    return nest(0)


def _loop(
    p: TirParser, node: ast.For, name: ast.expr, dom: n.Range, kind: ForKind, binding: n.IterVar | None,
    annotations: dict[str, Any], inside: Callable[[], Stmt],
) -> Stmt:  # fmt: skip
    assert isinstance(name, ast.Name)
    if "int" not in dom.extent.dtype:
        p.fail(node.iter, f"the bounds of a loop are integers, not {dom.extent.dtype}")
    var = n.Var(name.id, dom.extent.dtype, p.span(name))
    p.loops[var] = dom
    with p.scope.block():
        p.scope.define(name.id, var)
        return n.For(var, dom.min, dom.extent, kind, inside(), binding, annotations, p.span(node))


def _while(p: TirParser, node: ast.While) -> Stmt:
    if node.orelse:
        p.fail(node.orelse[0], "a loop has no else")
    return n.While(p.condition(node.test), body(p, node.body), p.span(node))


def _if(p: TirParser, node: ast.If) -> Item | list[Item]:
    test = p.value(node.test)
    if isinstance(test, bool):  # known while the script is read
        return items(p, node.body if test else node.orelse)
    test = p.condition(node.test)
    other = body(p, node.orelse) if node.orelse else None
    return n.IfThenElse(test, body(p, node.body), other, p.span(node))


# ------------------------------------------------------------------------------- assignments


def _assign(p: TirParser, node: ast.Assign) -> Item | list[Item]:
    if len(node.targets) != 1:
        p.fail(node, "one target is assigned at a time")
    return _bind(p, node, node.targets[0], node.value)


def _bind(p: TirParser, node: ast.stmt, target: ast.expr, source: ast.expr) -> Item | list[Item]:
    if isinstance(target, ast.Subscript):
        return _store(p, node, target, p.expr(source))
    if isinstance(target, ast.Tuple):
        return _bind_all(p, node, target, source)
    if not isinstance(target, ast.Name):
        p.fail(target, "a name or an element A[i, j] is assigned")
    call = p.call(source)
    if isinstance(source, ast.Call) and call is not None:
        if call.removeprefix("axis.") in AXES and call.startswith("axis."):
            p.scope.define(target.id, axis(p, source, call.removeprefix("axis."), target.id))
            return None
        if call == "axis.remap":  # of one loop
            remap(p, source, [target])
            return None
        rule = DEFINITIONS.get(call)
        if rule is not None:
            return rule(p, source, target.id)
    found = p.value(source)
    scalar = _scalar_of(p, target)
    if scalar is not None:
        return _kept(p, node, scalar, found)
    if call == "meta_var" or isinstance(found, str | tuple | list | n.Buffer):
        p.scope.define(target.id, found)
        return None
    if isinstance(found, n.Var) and not found.name:  # T.int32()
        if target.id in p.sizes and p.sizes[target.id].dtype == found.dtype:  # named by a parameter
            return None
        p.scope.define(target.id, type(found)(target.id, found.dtype, p.span(target)))
        return None
    if target.id in p.written_again:
        return _scalar(p, node, target, ops.as_expr(found).dtype, found)
    return let(p, node, target, target.id, ops.as_expr(found))


def _bind_all(p: TirParser, node: ast.stmt, target: ast.Tuple, source: ast.expr) -> Item | list[Item]:
    if p.call(source) == "axis.remap":
        assert isinstance(source, ast.Call)
        remap(p, source, target.elts)
        return None
    parts = source.elts if isinstance(source, ast.Tuple | ast.List) else None
    if parts is None or len(parts) != len(target.elts):
        p.fail(node, f"{len(target.elts)} names need as many values")
    found: list[Item] = []
    for name, part in zip(target.elts, parts):
        result = _bind(p, node, name, part)
        found.extend(result if isinstance(result, list) else [result])
    return found


def _annotated(p: TirParser, node: ast.AnnAssign) -> Item | list[Item]:
    """x: T.float32 = value, which newer versions write x: T.let[T.float32] = value, or x: T.let = value."""
    told = node.annotation
    if isinstance(told, ast.Subscript) and p.member(told.value) == (p.SPACE, "let"):
        told = told.slice
    if p.member(told) == (p.SPACE, "let") and node.value is not None and isinstance(node.target, ast.Name):
        return let(p, node, node.target, node.target.id, p.expr(node.value))
    kind = p.value(told)
    name = node.target.id if isinstance(node.target, ast.Name) else None
    if name in p.written_again and told is node.annotation and isinstance(kind, TypeName):
        assert isinstance(node.target, ast.Name)
        given = None if node.value is None else p.value(node.value)
        return _scalar(p, node, node.target, kind.dtype, given)
    if node.value is None or not isinstance(node.target, ast.Name) or not isinstance(kind, TypeName):
        p.fail(node, "a let statement is `name: T.dtype = value`")
    given = p.expr(node.value)
    if isinstance(given, n.IntImm | n.FloatImm):
        given = ops.cast(kind.dtype, given)
    if given.dtype != kind.dtype:
        message = f"{node.target.id} is T.{kind.dtype}, its value {given.dtype}"
        p.fail(node.value, message, "convert the value with T.Cast")
    return let(p, node, node.target, node.target.id, given)


def _scalar(p: TirParser, node: ast.stmt, target: ast.Name, dtype: str, value: Any) -> list[Item]:
    """Read x: T.int32 = value of newer texts: memory of one element, which `x = value` writes again."""
    buffer, span = n.decl_buffer((1,), dtype, target.id), p.span(node)
    found: list[Item] = [
        lambda rest: n.Allocate(buffer.data, dtype, buffer.shape, ops.const(True), rest, buffer.scope, {}, span)
    ]
    if value is not None:
        found.append(_kept(p, node, buffer, value))
    p.scalars.add(buffer)
    p.scope.define(target.id, n.BufferLoad(buffer, (ops.const(0),)))
    return found


def _scalar_of(p: TirParser, target: ast.expr) -> n.Buffer | None:
    known = p.scope.find(target.id, None) if isinstance(target, ast.Name) else None
    return known.buffer if isinstance(known, n.BufferLoad) and known.buffer in p.scalars else None


def _kept(p: TirParser, node: ast.stmt, buffer: n.Buffer, value: Any) -> Stmt:
    given = ops.as_expr(value)
    if isinstance(given, n.IntImm | n.FloatImm):
        given = ops.cast(buffer.dtype, given)
    return n.BufferStore(buffer, given, (ops.const(0),), None, p.span(node))


def _store(p: TirParser, node: ast.stmt, target: ast.Subscript, given: n.PrimExpr) -> Stmt:
    buffer = p.value(target.value)
    if not isinstance(buffer, n.Buffer):
        p.fail(target.value, f"{ast.unparse(target.value)} is no buffer")
    indices = p.point(buffer, target)
    want = n.BufferLoad(buffer, indices).dtype
    if given.dtype != want:
        if not isinstance(given, n.IntImm | n.FloatImm) and "x" not in want:
            p.fail(node, f"a value of dtype {given.dtype} is stored to buffer {buffer.name!r} of {want}",
                   f'convert it: T.Cast("{want}", ...)')  # fmt: skip
        given = ops.cast(want, given)
    return n.BufferStore(buffer, given, indices, None, p.span(node))


_AUGMENTED: dict[type[ast.operator], type[n.BinaryOp]] = {
    ast.Add: n.Add,
    ast.Sub: n.Sub,
    ast.Mult: n.Mul,
    ast.FloorDiv: n.FloorDiv,
    ast.Mod: n.FloorMod,
    ast.Div: n.Div,
}


def _augmented(p: TirParser, node: ast.AugAssign) -> Stmt:
    kind = _AUGMENTED.get(type(node.op))
    scalar = _scalar_of(p, node.target)
    if scalar is not None and kind is not None:
        old, new = p.scope.find(node.target.id), p.value(node.value)  # type: ignore[union-attr]
        return _kept(p, node, scalar, divide(old, new) if kind is n.Div else binary(kind, old, new))
    if kind is None or not isinstance(node.target, ast.Subscript):
        p.fail(node, "only elements are updated, with += -= *= /= //= %=")
    old, new = p.value(node.target), p.value(node.value)
    return _store(p, node, node.target, divide(old, new) if kind is n.Div else binary(kind, old, new))


# ------------------------------------------------------------------------- calls by themselves


def _expression(p: TirParser, node: ast.Expr) -> Item | list[Item]:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return None  # a docstring
    if not isinstance(node.value, ast.Call):
        p.fail(node, "an expression by itself does nothing", "write T.evaluate(...) to have it evaluated")
    call = node.value
    name = p.call(call)
    rule = _CALLS.get(name) if name is not None else None
    if rule is not None:
        return rule(p, call)
    func = call.func
    used = p.scope.find(func.id, None) if isinstance(func, ast.Name) else None
    if isinstance(used, Macro):
        return used.expand(p, call, lambda nodes: items(p, nodes))  # type: ignore[no-any-return]
    if isinstance(func, ast.Attribute) and func.attr == "vstore":
        return _vstore(p, call, p.value(func.value))
    return n.Evaluate(p.expr(call), p.span(node))


def _vstore(p: TirParser, call: ast.Call, buffer: Any) -> Stmt:
    """A.vstore([i], value, predicate=mask)."""
    args, named = p.arguments(call)
    if not isinstance(buffer, n.Buffer) or len(args) not in (2, 3):
        p.fail(call, "vstore takes indices, a value and a predicate, on a buffer")
    mask = args[2] if len(args) == 3 else named.get("predicate")
    indices = args[0] if isinstance(args[0], tuple | list) else (args[0],)
    where = None if mask is None else ops.as_expr(mask)
    given, places = ops.as_expr(args[1]), tuple(map(ops.as_expr, indices))
    if where is None and places and lanes_of(places[-1].dtype) == 1:
        return buffer.vstore(places, given)  # as many elements as the value has lanes
    return n.BufferStore(buffer, given, places, where, p.span(call))


def _evaluate(p: TirParser, call: ast.Call) -> Item:
    if len(call.args) != 1:
        p.fail(call, "T.evaluate takes one expression")
    return n.Evaluate(p.expr(call.args[0]), p.span(call))


def _reads(p: TirParser, call: ast.Call) -> None:
    p.block.reads = buffers.regions(p, call)


def _writes(p: TirParser, call: ast.Call) -> None:
    p.block.writes = buffers.regions(p, call)


def _where(p: TirParser, call: ast.Call) -> None:
    if len(call.args) != 1:
        p.fail(call, "T.where takes one condition")
    p.block.predicate = p.condition(call.args[0])


def _attributes(p: TirParser, call: ast.Call) -> None:
    found = p.value(call.args[0]) if len(call.args) == 1 else None
    if not isinstance(found, dict):
        p.fail(call, 'attributes are a dict: {"key": value}')
    # Apache TVM writes truth values of attributes as `T.bool(True)`.
    found = {re.sub(r"^tirx\.", "tir.", key): _truth(value) for key, value in found.items()}
    (p.block.attrs if p.block.is_function else p.block.annotations).update(found)


def _truth(value: Any) -> Any:
    return bool(value.value) if isinstance(value, n.IntImm) and value.dtype == "bool" else value


def _attr(p: TirParser, call: ast.Call) -> Item:
    match call.args:
        case [ast.Dict(keys=[ast.expr() as name], values=[ast.expr() as value])]:  # as newer versions have it
            word, result = p.constant(name, str, "the key of an attribute"), p.expr(value)
            return lambda rest: n.AttrStmt(0, word, result, rest, p.span(call))
    if len(call.args) != 3:
        p.fail(call, "T.attr takes a node, a key and a value")
    about, key = p.value(call.args[0]), p.constant(call.args[1], str, "the key of an attribute")
    given = p.expr(call.args[2])
    return lambda rest: n.AttrStmt(about, key, given, rest, p.span(call))


def _assertion(p: TirParser, call: ast.Call) -> Item:
    if len(call.args) != 2:
        p.fail(call, "T.Assert takes a condition and a message")
    return _check(p, call, call.args[0], call.args[1])


def _check(p: TirParser, node: ast.AST, test: ast.expr, message: ast.expr | None) -> Item:
    holds = p.condition(test)
    if isinstance(message, ast.Tuple) and len(message.elts) == 2:  # of newer versions: the error's kind, and its parts
        kind, parts = p.value(message.elts[0]), p.value(message.elts[1])
        told = n.StringImm(f"{kind}: {''.join(map(str, parts))}")
        return lambda rest: n.AssertStmt(holds, told, rest, p.span(node))
    text = n.StringImm("") if message is None else p.expr(message)
    return lambda rest: n.AssertStmt(holds, text, rest, p.span(node))


def _assert(p: TirParser, node: ast.Assert) -> Item:
    return _check(p, node, node.test, node.msg)


def _launch(p: TirParser, call: ast.Call) -> Item:
    return launch_thread(p, call, "")


def _no_break(p: TirParser, call: ast.Call) -> Item:
    p.fail(call, "a loop ends when its condition does: there is no break and no continue")


_CALLS: dict[str, Callable[[TirParser, ast.Call], Item]] = {
    "break_loop": _no_break,
    "continue_loop": _no_break,
    "evaluate": _evaluate,
    "reads": _reads,
    "writes": _writes,
    "where": _where,
    "block_attr": _attributes,
    "sblock_attr": _attributes,
    "func_attr": _attributes,
    "attr": _attr,
    "Assert": _assertion,
    "launch_thread": _launch,
}


def _with(p: TirParser, node: ast.With) -> Stmt:
    """One or more scopes around statements."""

    def inside(position: int) -> Stmt:
        if position == len(node.items):
            return body(p, node.body)
        item = node.items[position]
        call, name = item.context_expr, p.call(item.context_expr)
        if not isinstance(call, ast.Call) or name is None:
            p.fail(call, f"`with {ast.unparse(call)}` has no place in a script", f"accepted here: {_ACCEPTED}")
        if name in ("block", "sblock"):
            return block(p, call, lambda: inside(position + 1))
        target = item.optional_vars
        if target is not None and not isinstance(target, ast.Name):
            p.fail(target, "`as` is followed by a name")
        with p.scope.block():
            rule, plain = DEFINITIONS.get(name), _CALLS.get(name)
            if rule is not None:
                wrap = rule(p, call, target.id if target is not None else "v")
            elif plain is not None:
                wrap = plain(p, call)
            else:
                raise p.unknown(call, "there is no `with`", f"T.{name}", _WITH)
            rest = inside(position + 1)
            return wrap(rest) if callable(wrap) else rest

    if len(node.items) == 1 and p.call(node.items[0].context_expr) == "init":
        if not p.parts or p.block.is_function:
            p.fail(node, "T.init stands in a block")
        if p.block.init is not None:
            p.fail(node, "the block has two T.init", "write all of its start into one")
        p.block.init = body(p, node.body)
        return None  # type: ignore[return-value]
    return inside(0)


_WITH = ["T.block", "T.init", "T.LetStmt", "T.attr", "T.Assert", "T.allocate", "T.decl_buffer", "T.launch_thread"]
_ACCEPTED = ", ".join(_WITH)

_RULES: dict[type[ast.stmt], Callable[[TirParser, Any], Item | list[Item]]] = {
    ast.For: _for,
    ast.While: _while,
    ast.If: _if,
    ast.With: _with,
    ast.Assert: _assert,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Expr: _expression,
    ast.Pass: lambda p, node: None,
}
