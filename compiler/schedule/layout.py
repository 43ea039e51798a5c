"""How the elements of a buffer are laid out: transform_layout.

The map from old to new indices travels in the trace as the text of a Python lambda, of which only sums, products,
quotients and remainders of its parameters and integers are read; nothing is evaluated as Python.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.errors import ScheduleError
from compiler.ir.base import Node
from compiler.schedule import tree
from compiler.schedule.dataflow import is_parameter, with_regions
from compiler.schedule.expr import subst
from compiler.schedule.injective import undetermined
from compiler.schedule.state import Effect, Illegal, block_path, realize_at
from compiler.schedule.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import map_children, replace

_MAX_TEXT = 2000
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], PrimExpr]] = {
    ast.Add: ops.add,
    ast.Sub: ops.sub,
    ast.Mult: ops.mul,
    ast.FloorDiv: ops.floordiv,
    ast.Mod: ops.floormod,
}


def _spelled(inputs: list[str], attrs: dict[str, Any]) -> str:
    buffer = (attrs["buffer_index_type"], attrs["buffer_index"])
    return f"{inputs[0]}, {buffer!r}, {attrs['index_map']!r}, [{', '.join(inputs[1:])}]"


@primitive(
    "block", "int*",
    attrs={"buffer_index": (int,), "buffer_index_type": (str,), "index_map": (str,)},
    spell=_spelled,
)  # fmt: skip
def transform_layout(
    func: n.PrimFunc, block: str, *sizes: int, buffer_index: int, buffer_index_type: str, index_map: str
) -> Effect:
    """Lay a buffer out anew: element [i, j] moves to `index_map`(i, j). The block only names the buffer, as the
    `buffer_index`-th one it reads or writes ("read", "write"); every access in the function follows. `sizes` are
    further arguments of the map. No two elements may meet; arguments of the function stay as they are.

    compute_at and reverse_compute_at follow plain indices, so move blocks first.

        index_map = lambda i, j: (j // 16, i, j % 16)

        B[vk, vj] = ...                   →   B[vj // 16, vk, vj % 16] = ...
    """
    found = realize_at(block_path(func, block)).block
    regions = {"read": found.reads, "write": found.writes}.get(buffer_index_type)
    if regions is None:
        raise Illegal(f"buffer_index_type is 'read' or 'write', not {buffer_index_type[:20]!r}", block)
    if not 0 <= buffer_index < len(regions):
        raise Illegal(f"block {block!r} has no {buffer_index_type} buffer number {buffer_index}", block)
    buffer = regions[buffer_index].buffer
    if is_parameter(func, buffer):
        raise Illegal(f"buffer {buffer.name!r} is an argument of the function", block, hint="use a cache of it")
    dims, places = _read_map(index_map, len(buffer.shape), sizes)
    shape = _new_shape(buffer, dims, places)
    new = n.decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope, data_alignment=buffer.data_alignment)
    body = _moved(func.body, buffer, new, dims, places)
    return Effect(func.with_body(body))


def map_text(index_map: Callable[..., Any] | str, rank: int, sizes: int) -> str:
    """The text of an index map over `rank` indices and `sizes` further arguments. Raises ScheduleError when the
    callable does not take so many arguments or uses more than + - * // %."""
    if isinstance(index_map, str):
        return index_map
    names = [f"d{i}" for i in range(rank)] + [f"s{i}" for i in range(sizes)]
    parameters = inspect.signature(index_map).parameters.values()
    count = len(parameters)
    if count != len(names) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        raise ScheduleError(f"transform_layout: the index map takes {count} arguments, {len(names)} are needed")
    result = index_map(*(n.Var(name) for name in names))
    places = result if isinstance(result, tuple | list) else (result,)
    return f"lambda {', '.join(names)}: ({''.join(f'{_text(ops.as_expr(p))}, ' for p in places).rstrip()})"


def _text(expr: PrimExpr) -> str:
    match expr:
        case n.Var():
            return expr.name
        case n.IntImm():
            return str(expr.value)
    signs = {n.Add: "+", n.Sub: "-", n.Mul: "*", n.FloorDiv: "//", n.FloorMod: "%"}
    sign = signs.get(type(expr))  # type: ignore[arg-type]
    if sign is None or not isinstance(expr, n.BinaryOp):
        raise ScheduleError(f"transform_layout: an index map is made of + - * // %, not {type(expr).__name__}")
    return f"({_text(expr.a)} {sign} {_text(expr.b)})"


# ------------------------------------------------------------------------------- reading a map


def _read_map(text: str, rank: int, sizes: Sequence[int]) -> tuple[list[n.Var], list[PrimExpr]]:
    """Variables for the old indices, and the new indices in them. Raises Illegal for a text that is no such map."""
    try:
        parsed = ast.parse(text if len(text) <= _MAX_TEXT else "", mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise Illegal("the index map cannot be read") from None
    if not isinstance(parsed, ast.Lambda):
        raise Illegal("the index map is no lambda")
    names = [a.arg for a in parsed.args.args]
    if len(names) != rank + len(sizes) or len(set(names)) != len(names):
        raise Illegal(f"the index map takes {len(names)} arguments, {rank + len(sizes)} are needed")
    dims = [n.Var(name) for name in names[:rank]]
    values: dict[str, PrimExpr] = dict(zip(names, [*dims, *map(ops.const, sizes)]))
    items = parsed.body.elts if isinstance(parsed.body, ast.Tuple) else [parsed.body]
    return dims, [_expression(item, values) for item in items]


def _expression(node: ast.expr, values: dict[str, PrimExpr]) -> PrimExpr:
    match node:
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Constant(value=int() as value) if type(value) is int and abs(value) < 1 << 31:
            return ops.const(value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _expression(left, values), _expression(right, values)
            size = ops.as_int(b)
            if isinstance(op, ast.FloorDiv | ast.Mod) and (size is None or size < 1):
                raise Illegal("the index map divides by something that is no positive constant")
            return _OPERATORS[type(op)](a, b)
    raise Illegal(f"the index map holds more than + - * // % of its arguments: {ast.unparse(node)[:40]!r}")


def _new_shape(buffer: n.Buffer, dims: list[n.Var], places: list[PrimExpr]) -> tuple[PrimExpr, ...]:
    """The extents that hold every place. Raises Illegal when two elements may get the same place."""
    analyzer = Analyzer()
    loops: list[n.For] = []
    for var, size in zip(dims, buffer.shape):
        analyzer.bind(var, n.Range(ops.const(0, size.dtype), size))
        loops.append(n.For(var, ops.const(0), size, n.ForKind.SERIAL, n.Evaluate(ops.const(0))))
    shape: list[PrimExpr] = []
    for place in places:
        low, high = analyzer.const_int_bound(place)
        if low is None or high is None or low < 0:
            raise Illegal(f"the index map does not give {buffer.name!r} constant extents from 0 up")
        shape.append(ops.const(high + 1))
    lost = undetermined(places, loops, loops)
    if lost:
        raise Illegal(
            f"the index map may put two elements of {buffer.name!r} in one place: it loses index "
            f"{dims.index(lost[0].loop_var)}"
        )
    return tuple(shape)


def _moved(body: Stmt, old: n.Buffer, new: n.Buffer, dims: list[n.Var], places: list[PrimExpr]) -> Stmt:
    """`body` with every access of `old` turned into one of `new`."""

    def place(indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        mapping = dict(zip(dims, indices))
        return tuple(subst(p, mapping) for p in places)

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore() if rebuilt.buffer is old:
                return replace(rebuilt, buffer=new, indices=place(rebuilt.indices))
            case n.Block():
                return _block(rebuilt)
        return rebuilt

    def _block(block: n.Block) -> n.Block:
        if any(b is old for b in block.alloc_buffers):
            block = replace(block, alloc_buffers=tuple(new if b is old else b for b in block.alloc_buffers))
        if not any(r.buffer is old for r in (*block.reads, *block.writes)):
            return block
        if tree.realizes(block.body) or block.match_buffers:
            raise Illegal(f"block {block.name_hint!r}, which uses {old.name!r}, holds other blocks", block.name_hint)
        return with_regions(block)

    result = go(body)
    assert isinstance(result, Stmt)
    return result
