"""Buffers in scripts: declarations, and the regions that blocks read and write."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.text.parse_expr import TirParser, extent
from compiler.tir.text.vocabulary import TypeName

_NAMES = ("shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor", "buffer_type",
          "axis_separators")  # fmt: skip


def declared(p: TirParser, call: ast.Call, name: str, skip: int = 0, scope: str = "global") -> n.Buffer:
    """Return the buffer that a call such as T.Buffer(shape, dtype, ...) declares.
    Its first `skip` arguments are others."""
    rest = ast.Call(call.func, call.args[skip:], call.keywords)
    args, named = p.arguments(rest)
    return from_arguments(p, call, name, args, named, scope)


def from_arguments(
    p: TirParser, node: ast.AST, name: str, args: Sequence[Any], named: dict[str, Any], scope: str = "global"
) -> n.Buffer:
    if len(args) > len(_NAMES) or not set(named) <= set(_NAMES):
        wrong = next((k for k in named if k not in _NAMES), "")
        p.fail(node, f"a buffer has no argument {wrong!r}", f"accepted: {', '.join(_NAMES)}")
    given = {**dict(zip(_NAMES, args)), **named}
    if "shape" not in given:
        p.fail(node, "a buffer needs a shape")
    if given.get("axis_separators"):
        p.fail(node, "buffers have no axis separators: memory is flat here", "leave axis_separators out, or empty")
    if given.get("buffer_type", "") not in ("", "default"):
        p.fail(node, "buffers have no type: none is broadcast here", "leave buffer_type out, and give the shape")
    dtype = given.get("dtype", "float32")
    dtype = dtype.dtype if isinstance(dtype, TypeName) else dtype
    with p.source.at(node):
        if not isinstance(dtype, str):
            p.fail(node, f"the dtype of a buffer is a string, not {dtype!r}")
        parse_dtype(dtype)
        shape = _dims(p, given["shape"])
        data = given.get("data")
        if data is not None and not isinstance(data, n.Var):
            p.fail(node, "data= is the variable of an allocation, or the .data of another buffer")
        offset = given.get("elem_offset")
        if offset is None and given.get("offset_factor"):
            offset = n.Var(f"{name}_elem_offset", shape[0].dtype if shape else "int32")
        align = ops.as_int(given.get("align", 64))
        return n.Buffer(
            name, data if data is not None else n.Var(name, "handle"), shape, dtype,
            _dims(p, given.get("strides") or ()), None if offset is None else ops.as_expr(offset),
            given.get("scope") or scope, align if align is not None and align > 0 else 64, p.span(node),
            _factor(given.get("offset_factor")),
        )  # fmt: skip


def _factor(given: Any) -> int:
    return ops.as_int(given) or 0


def _dims(p: TirParser, items: Any) -> tuple[PrimExpr, ...]:
    """Read sizes or strides. A string names a variable, which is new if the name is."""
    group = items if isinstance(items, tuple | list) else (items,)
    return tuple(p.named_size(item) if isinstance(item, str) else ops.as_expr(item) for item in group)


def region(p: TirParser, node: ast.expr) -> n.BufferRegion:
    """`A`, `A[i, j]` or `A[i, 0:4]` as a region."""
    owner = p.value(node.value if isinstance(node, ast.Subscript) else node)
    if not isinstance(owner, n.Buffer):
        p.fail(node, "a region is a buffer, or a part of one such as A[i, 0:4]")
    if not isinstance(node, ast.Subscript):
        return n.BufferRegion(owner, tuple(n.Range(ops.const(0, s.dtype), s) for s in owner.shape))
    items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(items) != len(owner.shape):
        p.fail(node, f"buffer {owner.name!r} has {len(owner.shape)} dimensions, its region {len(items)}")
    return n.BufferRegion(owner, tuple(_range(p, item, size) for item, size in zip(items, owner.shape)))


def regions(p: TirParser, call: ast.Call) -> tuple[n.BufferRegion, ...]:
    """The arguments of T.reads or T.writes, which may stand in a list."""
    items = call.args
    if len(items) == 1 and isinstance(items[0], ast.List | ast.Tuple):
        items = items[0].elts
    return tuple(region(p, item) for item in items)


def _range(p: TirParser, node: ast.expr, size: PrimExpr) -> n.Range:
    if not isinstance(node, ast.Slice):
        low = p.expr(node)
        return n.Range(low, ops.const(1, low.dtype))
    if node.step is not None:
        p.fail(node, "a region has no step")
    if node.lower is None and node.upper is None:
        return n.Range(ops.const(0, size.dtype), size)
    first: Any = 0 if node.lower is None else p.value(node.lower)
    last: Any = size if node.upper is None else p.value(node.upper)
    return interval(p, first, last)


def interval(p: TirParser, low: Any, high: Any) -> n.Range:
    """[low, high) as a range."""
    first, last = ops.match_types(low, high)
    return n.Range(first, extent(first, last))


class _Annotation:
    """`T.Buffer((8, 8), "float32")`: as an annotation of a parameter; outside of scripts a new buffer."""

    def __call__(self, shape: Any, dtype: str = "float32", data: n.Var | None = None, **layout: Any) -> n.Buffer:
        layout = {"data_alignment" if key == "align" else key: item for key, item in layout.items()}
        return n.decl_buffer(shape, dtype, data=data, **layout)

    def __getitem__(self, items: Any) -> n.Buffer:
        shaped = isinstance(items, tuple) and len(items) == 2 and isinstance(items[1], str)
        return self(*items) if shaped else self(items)


annotation = _Annotation()
