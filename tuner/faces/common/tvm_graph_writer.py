"""Functions as the JSON that Apache TVM's `load_json` reads (0.8 to 0.20).

What `tvm_graph` reads, written.

Nodes are numbered in the order that they are met. A variable or a buffer is one node however often it is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compiler.ir.base import Op
from compiler.ir.module import IRModule
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType
from tuner.faces.common.tvm_graph import ForeignError

_VERSION = "0.17.0"
_ITER_TYPES = {IterType.DATA_PAR: 0, IterType.COMM_REDUCE: 2}
_FOR_KINDS = {ForKind.SERIAL: 0, ForKind.PARALLEL: 1, ForKind.VECTORIZED: 2, ForKind.UNROLLED: 3}
_ALIGNMENT = 64


def module_json(mod: IRModule | n.PrimFunc, **notes: str) -> str:
    """Return a module of functions of TensorIR, or one of them, as text; TVM does not look at `notes`.

    Raises ForeignError for what that text has no node for.
    """
    writer = _Writer()
    root = writer.module(mod) if isinstance(mod, IRModule) else writer.function(mod)
    attrs = {**notes, "tvm_version": _VERSION}
    return json.dumps({"root": root, "nodes": writer.nodes, "b64ndarrays": [], "attrs": attrs}, indent=1)


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self._made: dict[int, int] = {}
        self._kept: list[object] = []  # so that no other object takes the place of one that is known by its id

    # ---------------------------------------------------------------------------------- nodes

    def _add(self, key: str, /, **attrs: Any) -> int:
        """A new node; attributes are texts, as TVM writes them."""
        node: dict[str, Any] = {"type_key": key}
        if attrs:
            node["attrs"] = {name.rstrip("."): str(value) for name, value in sorted(attrs.items())}
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _raw(self, node: dict[str, Any]) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _text(self, text: str) -> int:
        return self._raw({"type_key": "runtime.String", **({"repr_str": text} if text else {})})

    def _array(self, items: Iterable[int]) -> int:
        found = list(items)
        return self._raw({"type_key": "Array", **({"data": found} if found else {})})

    def _named(self, items: Mapping[str, int]) -> int:
        if not items:
            return self._raw({"type_key": "Map"})
        return self._raw({"type_key": "Map", "keys": list(items), "data": list(items.values())})

    def _once(self, of: object, make: Callable[[], int]) -> int:
        if id(of) not in self._made:
            made = make()
            self._made[id(of)] = made
            self._kept.append(of)
        return self._made[id(of)]

    # --------------------------------------------------------------------------------- modules

    def module(self, mod: IRModule) -> int:
        names, pairs, keys = {}, [], {}
        for var, func in mod.functions.items():
            if not isinstance(func, n.PrimFunc):
                raise ForeignError(f"{var.name_hint} is no function of TensorIR")
            names[var.name_hint] = keys[var.name_hint] = self._add(
                "GlobalVar", _checked_type_=0, name_hint=self._text(var.name_hint), span=0, struct_info_=0,
                virtual_device_=0,
            )  # fmt: skip
            pairs += [names[var.name_hint], self.function(func)]
        empty = {name: self._named({}) for name in ("global_infos", "global_type_var_map_", "type_definitions")}
        return self._add(
            "IRModule",
            attrs=self._add("DictAttrs", __dict__=self._named({})),
            functions=self._raw({"type_key": "Map", "data": pairs}),
            global_var_map_=self._named(keys),
            source_map=self._add("SourceMap", source_map=self._named({})),
            **empty,
        )

    def function(self, func: n.PrimFunc) -> int:
        params = self._array(map(self.expr, func.params))
        buffers = [
            number for var, buffer in func.buffer_map.items() for number in (self.expr(var), self.buffer(buffer))
        ]
        attrs = {name: self.value(value) for name, value in func.attrs.items()}
        ret = self._add("TupleType", fields=self._array(()), span=0)
        return self._add(
            "tir.PrimFunc", _checked_type_=0, attrs=self._add("DictAttrs", __dict__=self._named(attrs)),
            body=self.stmt(func.body),
            buffer_map=self._raw({"type_key": "Map", **({"data": buffers} if buffers else {})}), params=params,
            ret_type=ret, span=0,
        )  # fmt: skip

    def value(self, value: Any) -> int:
        """An attribute or annotation."""
        match value:
            case bool():
                return self.expr(ops.const(value))
            case int() | float():
                return self.expr(ops.as_expr(value))
            case str():
                return self._text(value)
            case tuple() | list():
                return self._array(map(self.value, value))
            case Mapping():
                return self._named({str(key): self.value(item) for key, item in value.items()})
            case n.PrimExpr():
                return self.expr(value)
        raise ForeignError(f"a {type(value).__name__} among annotations has no node in TVM's text")

    def buffer(self, buffer: n.Buffer) -> int:
        return self._once(buffer, lambda: self._buffer(buffer))

    def _buffer(self, buffer: n.Buffer) -> int:
        offset = ops.const(0) if buffer.elem_offset is None else buffer.elem_offset
        if (buffer.data_alignment, buffer.offset_factor) != (_ALIGNMENT, 0) or buffer.strides:
            raise ForeignError(f"buffer {buffer.name!r} is not compact")
        data = self._once(buffer.data, lambda: self._pointer(buffer))
        return self._add(
            "tir.Buffer", axis_separators=self._array(()), buffer_type=1, data=data, data_alignment=_ALIGNMENT,
            dtype=buffer.dtype, elem_offset=self.expr(offset), name=self._text(buffer.name), offset_factor=1,
            shape=self._array(map(self.expr, buffer.shape)), span=0, strides=self._array(()),
        )  # fmt: skip

    def _pointer(self, buffer: n.Buffer) -> int:
        element = self._add("PrimType", dtype=buffer.dtype)
        kind = self._add("PointerType", element_type=element, storage_scope=self._text(buffer.scope))
        return self._add(
            "tir.Var", dtype="handle", name=self._text(buffer.data.name), span=0, type_annotation=kind
        )  # fmt: skip

    # -------------------------------------------------------------------------------- statements

    def stmt(self, stmt: n.Stmt) -> int:
        match stmt:
            case n.SeqStmt(seq=parts):
                return self._add("tir.SeqStmt", seq=self._array(map(self.stmt, parts)), span=0)
            case n.BufferStore(buffer=buffer, value=value, indices=indices, predicate=None):
                place = self._array(map(self.expr, indices))
                return self._add(
                    "tir.BufferStore", buffer=self.buffer(buffer), indices=place, span=0, value=self.expr(value)
                )  # fmt: skip
            case n.IfThenElse(condition=condition, then_case=then, else_case=other):
                return self._add(
                    "tir.IfThenElse", condition=self.expr(condition),
                    else_case=0 if other is None else self.stmt(other), span=0, then_case=self.stmt(then),
                )  # fmt: skip
            case n.For() if stmt.kind in _FOR_KINDS:
                notes = self._named({key: self.value(item) for key, item in stmt.annotations.items()})
                return self._add(
                    "tir.For", annotations=notes, extent=self.expr(stmt.extent), kind=_FOR_KINDS[stmt.kind],
                    loop_var=self.expr(stmt.loop_var), min=self.expr(stmt.min), span=0, thread_binding=0,
                    body=self.stmt(stmt.body),
                )  # fmt: skip
            case n.BlockRealize(iter_values=values, predicate=predicate, block=block):
                return self._add(
                    "tir.BlockRealize", iter_values=self._array(map(self.expr, values)),
                    predicate=self.expr(predicate), block=self.block(block),
                )  # fmt: skip
        raise ForeignError(f"a {type(stmt).__name__} is not written in TVM's text")

    def block(self, block: n.Block) -> int:
        if block.match_buffers:
            raise ForeignError(f"block {block.name_hint!r} has a view of a buffer (match_buffer), which is not written")
        return self._add(
            "tir.Block",
            iter_vars=self._array(map(self.axis, block.iter_vars)),
            reads=self._array(map(self.region, block.reads)),
            writes=self._array(map(self.region, block.writes)),
            name_hint=self._text(block.name_hint),
            body=self.stmt(block.body),
            init=0 if block.init is None else self.stmt(block.init),
            alloc_buffers=self._array(map(self.buffer, block.alloc_buffers)),
            match_buffers=self._array(()),
            annotations=self._named({key: self.value(item) for key, item in block.annotations.items()}),
        )

    def axis(self, axis: n.IterVar) -> int:
        if axis.iter_type not in _ITER_TYPES or axis.dom is None:
            raise ForeignError(f"axis {axis.var.name!r} is neither spatial nor reduced")
        return self._add(
            "tir.IterVar", dom=self.range(axis.dom), iter_type=_ITER_TYPES[axis.iter_type], span=0,
            thread_tag=self._text(""), var=self.expr(axis.var),
        )  # fmt: skip

    def range(self, item: n.Range) -> int:
        return self._add("Range", extent=self.expr(item.extent), min=self.expr(item.min), span=0)

    def region(self, region: n.BufferRegion) -> int:
        return self._add(
            "tir.BufferRegion", buffer=self.buffer(region.buffer), region=self._array(map(self.range, region.region))
        )  # fmt: skip

    # ------------------------------------------------------------------------------- expressions

    def expr(self, expr: n.PrimExpr) -> int:
        match expr:
            case n.Var():
                return self._once(expr, lambda: self._var(expr))
            case n.IntImm(dtype=dtype, value=value):
                return self._add("IntImm", dtype=dtype, span=0, value=int(value))
            case n.FloatImm(dtype=dtype, value=value):
                return self._add("FloatImm", dtype=dtype, span=0, value=repr(value))
            case n.StringImm(value=text):
                return self._add("tir.StringImm", dtype="handle", span=0, value=self._text(text))
            case n.BufferLoad(buffer=buffer, indices=indices, predicate=None):
                place = self._array(map(self.expr, indices))
                return self._add(
                    "tir.BufferLoad", buffer=self.buffer(buffer), dtype=expr.dtype, indices=place, span=0
                )  # fmt: skip
            case n.Cast(dtype=dtype, value=item):
                return self._add("tir.Cast", dtype=dtype, span=0, value=self.expr(item))
            case n.Not(a=a):
                return self._add("tir.Not", a=self.expr(a), dtype="bool", span=0)
            case n.Select(condition=condition, true_value=one, false_value=other):
                return self._add(
                    "tir.Select", condition=self.expr(condition), dtype=expr.dtype, false_value=self.expr(other),
                    span=0, true_value=self.expr(one),
                )  # fmt: skip
            case n.BinaryOp(a=a, b=b):
                return self._add(
                    f"tir.{type(expr).__name__}", a=self.expr(a), b=self.expr(b), dtype=expr.dtype, span=0
                )  # fmt: skip
            case n.Call(op=Op(name=name), args=args):
                op = self._raw({"type_key": "Op", "repr_str": name})
                return self._add(
                    "tir.Call", args=self._array(map(self.expr, args)), dtype=expr.dtype, op=op, span=0
                )  # fmt: skip
        raise ForeignError(f"a {type(expr).__name__} is not written in TVM's text")

    def _var(self, var: n.Var) -> int:
        kind = self._add("PrimType", dtype=var.dtype)
        key = "tir.SizeVar" if isinstance(var, n.SizeVar) else "tir.Var"
        return self._add(key, dtype=var.dtype, name=self._text(var.name), span=0, type_annotation=kind)
