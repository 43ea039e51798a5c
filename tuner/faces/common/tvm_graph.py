"""Functions out of the JSON that Apache TVM's `save_json` writes (0.8 to 0.20).

A list of nodes that name each other.

Only nodes of unscheduled functions are read; anything else is refused by its name. The text comes from elsewhere, so
nothing in it is trusted: references are checked, and depth is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler.errors import TunefarmError
from compiler.ir.base import Op
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt
from tuner.errors import TuningError

_MAX_DEPTH = 150
_ITER_TYPES = {0: IterType.DATA_PAR, 2: IterType.COMM_REDUCE}
_FOR_KINDS = (ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.THREAD_BINDING)
_BINARY: dict[str, Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    "Add": n.Add, "Sub": n.Sub, "Mul": n.Mul, "Div": n.Div, "Mod": n.Mod, "FloorDiv": n.FloorDiv,
    "FloorMod": n.FloorMod, "Min": n.Min, "Max": n.Max, "EQ": n.EQ, "NE": n.NE, "LT": n.LT, "LE": n.LE, "GT": n.GT,
    "GE": n.GE, "And": n.And, "Or": n.Or,
}  # fmt: skip


class ForeignError(TuningError, kind="foreign_record"):
    """A record of another tool that can't be read here; the message says what of it is unknown."""


class Graph:
    """The nodes and the objects made of them.
    A node is one object however often it is referred to. `whole`: functions keep their attributes; others have those
    of a workload."""

    _type = "type_key"
    """The field with a node's type."""

    def __init__(self, nodes: list[Any], whole: bool = False) -> None:
        self._nodes = nodes
        self._whole = whole
        self._made: dict[int, Any] = {}
        self._depth = 0

    def functions(self, root: int) -> dict[str, n.PrimFunc]:
        made = self.at(root)
        if isinstance(made, n.PrimFunc):
            return {"main": made}
        if not isinstance(made, dict) or not made:
            raise ForeignError("the workload is neither a module nor a function")
        for name, func in made.items():
            if not isinstance(func, n.PrimFunc):
                raise ForeignError(f"function {name!r} of the workload is no PrimFunc")
        return made

    def at(self, index: Any) -> Any:
        """Return the object of node `index` (a number, or its text); None for number 0."""
        number = _number(index)
        if not 0 <= number < len(self._nodes):
            raise ForeignError(f"the workload refers to node {number}, which is not there")
        if number not in self._made:
            self._depth += 1
            if self._depth > _MAX_DEPTH:
                raise ForeignError("the workload is nested too deeply")
            self._made[number] = self._make(self._nodes[number])
            self._depth -= 1
        return self._made[number]

    def _make(self, node: Any) -> Any:
        if not isinstance(node, dict) or not isinstance(key := node.get(self._type), str):
            raise ForeignError("the workload has a node without a type")
        try:
            return self._read(key, node)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            raise ForeignError(f"a node of type {key} in the workload is not as TVM writes it: {error!r}") from None
        except ForeignError:
            raise
        except TunefarmError as error:
            raise ForeignError(f"a node of type {key} in the workload can't be: {error.message}") from None

    def _read(self, key: str, node: Mapping[str, Any]) -> Any:
        """Return what a node of the type `key` stands for.
        Any error says that the node is not as TVM writes it."""
        name = key.rpartition(".")[2]
        attrs = node.get("attrs")
        fields: Mapping[str, Any] = attrs if isinstance(attrs, dict) else {}
        match name:
            case "":
                return None
            case "String" | "Op":
                return str(node["repr_str"])
            case "Array":
                return tuple(self.at(item) for item in node.get("data", ()))
            case "Map" if "keys" in node:
                return dict(zip(map(str, node["keys"]), map(self.at, node.get("data", ()))))
            case "Map":
                pairs = node.get("data", ())
                return {self.at(k): self.at(v) for k, v in zip(pairs[::2], pairs[1::2])}
            case "IRModule":
                return {str(name): func for name, func in self.at(fields["functions"]).items()}
            case "GlobalVar":
                return self.at(fields["name_hint"])
            case "DictAttrs":
                return self.at(fields["__dict__"])
            case _:
                return self._node(key, name, fields)

    def _node(self, key: str, name: str, f: Mapping[str, Any]) -> Any:
        if name in _BINARY:
            return _BINARY[name](self.at(f["a"]), self.at(f["b"]))
        match name:
            case "PrimFunc":
                return self._prim_func(f)
            case "PrimType" | "TupleType" | "FuncType" | "PointerType":
                return f  # asked for by the nodes that have use for it
            case "Var" | "SizeVar":
                kind = n.SizeVar if name == "SizeVar" else n.Var
                return kind(str(self.at(f["name"])), _dtype(f["dtype"]))
            case "IntImm":
                return n.IntImm(_dtype(f["dtype"]), _number(f["value"]))
            case "FloatImm":
                return n.FloatImm(_dtype(f["dtype"]), float(f["value"]))
            case "StringImm":
                return n.StringImm(str(self.at(f["value"])))
            case "Not":
                return n.Not(self.at(f["a"]))
            case "Cast":
                return n.Cast(_dtype(f["dtype"]), self.at(f["value"]))
            case "Select":
                return n.Select(self.at(f["condition"]), self.at(f["true_value"]), self.at(f["false_value"]))
            case "Call":
                return self._call(f)
            case "BufferLoad":
                return n.BufferLoad(self.at(f["buffer"]), self.at(f["indices"]))
            case "Range":
                return n.Range(self.at(f["min"]), self.at(f["extent"]))
            case "IterVar":
                return self._iter_var(f)
            case "Buffer":
                return self._buffer(f)
            case "BufferRegion":
                return n.BufferRegion(self.at(f["buffer"]), self.at(f["region"]))
            case _:
                return self._stmt(key, name, f)

    def _stmt(self, key: str, name: str, f: Mapping[str, Any]) -> Stmt:
        match name:
            case "SeqStmt":
                return n.SeqStmt(self.at(f["seq"]))
            case "BufferStore":
                return n.BufferStore(self.at(f["buffer"]), self.at(f["value"]), self.at(f["indices"]))
            case "IfThenElse":
                return n.IfThenElse(self.at(f["condition"]), self.at(f["then_case"]), self.at(f["else_case"]))
            case "For":
                kind = _FOR_KINDS[_number(f["kind"])]
                if kind is ForKind.THREAD_BINDING:
                    raise ForeignError("the workload has a loop bound to threads: it was scheduled already")
                body, notes = self.at(f["body"]), plain_attributes(self.at(f["annotations"]))
                return n.For(self.at(f["loop_var"]), self.at(f["min"]), self.at(f["extent"]), kind, body, None, notes)
            case "Block" | "SBlock":
                return self._block(f)
            case "BlockRealize" | "SBlockRealize":
                return n.BlockRealize(self.at(f["iter_values"]), self.at(f["predicate"]), self.at(f["block"]))
        raise ForeignError(f"the workload has a node of type {key}, which is not read")

    def _prim_func(self, f: Mapping[str, Any]) -> n.PrimFunc:
        params, body = self.at(f["params"]), self.at(f["body"])
        attrs = plain_attributes(self.at(f["attrs"]) or {})
        if not self._whole:
            attrs = {"global_symbol": attrs.get("global_symbol", "main"), "tir.noalias": True}
        return n.PrimFunc(params, body, None, dict(self.at(f["buffer_map"])), attrs)

    def _call(self, f: Mapping[str, Any]) -> PrimExpr:
        op = self.at(f["op"])
        if not isinstance(op, str):
            raise ForeignError("the workload calls something that is no intrinsic")
        try:
            found = Op.get(op)
        except (KeyError, TunefarmError):
            raise ForeignError(f"the workload calls {op}, which is not known here") from None
        return n.Call(_dtype(f["dtype"]), found, self.at(f["args"]))

    def _iter_var(self, f: Mapping[str, Any]) -> n.IterVar:
        kind = _ITER_TYPES.get(_number(f["iter_type"]))
        if kind is None:
            raise ForeignError("the workload has an axis that is neither spatial nor reduced")
        return n.IterVar(self.at(f["dom"]), self.at(f["var"]), kind)

    def _buffer(self, f: Mapping[str, Any]) -> n.Buffer:
        data, dtype, strides = self.at(f["data"]), _dtype(f["dtype"]), self.at(f["strides"])
        if strides:
            raise ForeignError(f"buffer {self.at(f['name'])} of the workload has strides")
        return n.Buffer(str(self.at(f["name"])), data, self.at(f["shape"]), dtype)

    def _block(self, f: Mapping[str, Any]) -> n.Block:
        if self.at(f["match_buffers"]):
            raise ForeignError("the workload has a view of a buffer (match_buffer), which is not read")
        return n.Block(
            self.at(f["iter_vars"]), self.at(f["reads"]), self.at(f["writes"]), str(self.at(f["name_hint"])),
            self.at(f["body"]), self.at(f["init"]), self.at(f["alloc_buffers"]), (),
            plain_attributes(self.at(f["annotations"])),
        )  # fmt: skip


def _number(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, str) and value.lstrip("-").isdecimal()):
        return int(value)
    raise ForeignError(f"{str(value)[:40]!r} in the workload is no number")


def _dtype(value: Any) -> str:
    return "bool" if value == "uint1" else str(value)


def plain_attributes(notes: Any) -> dict[str, Any]:
    """Annotations as plain data."""

    def plain(value: Any) -> Any:
        match value:
            case n.IntImm("bool", number):
                return bool(number)
            case n.IntImm(_, number) | n.FloatImm(_, number):
                return number
            case n.StringImm(text):
                return text
            case tuple():
                return tuple(map(plain, value))
        return value

    return {str(key): plain(value) for key, value in (notes or {}).items()}
