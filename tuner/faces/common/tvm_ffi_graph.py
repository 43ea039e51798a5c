"""Functions out of the JSON that Apache TVM writes since 0.21, when its objects moved to TVM FFI.

Nodes name each other as before, but their contents are typed otherwise. A field that holds an object is the number
of its node, and numbers that are values of their own are nodes too. Variables and expressions have a type instead of
a dtype, and a parameter is its buffer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compiler.tir import nodes as n
from tuner.faces.common.tvm_graph import ForeignError, Graph, plain_attributes

_RENAMED = {"TensorLoad": "BufferLoad", "TensorRegion": "BufferRegion"}


class FFIGraph(Graph):
    """The nodes of such a text."""

    _type = "type"

    def _read(self, key: str, node: Mapping[str, Any]) -> Any:
        data = node.get("data")
        match key:
            case "None":
                return None
            case "int" | "float" | "bool" | "ffi.String":
                return data
            case "ir.Op" if isinstance(data, str):
                return _here(data)
            case "ffi.Array":
                return tuple(self.at(item) for item in data or ())
            case "ffi.Map":
                pairs = data or ()
                return {self.at(k): self.at(v) for k, v in zip(pairs[::2], pairs[1::2])}
        return self._object(key, data if isinstance(data, dict) else {})

    def _object(self, key: str, f: Mapping[str, Any]) -> Any:
        name = key.rpartition(".")[2]
        match name:
            case "IRModule":
                return {str(name): func for name, func in self.at(f["functions"]).items()}
            case "GlobalVar":
                return self.at(f["name_hint"])
            case "DictAttrs":
                return self.at(f["__dict__"])
            case "PrimType":
                return str(f["dtype"])
            case "BufferType" | "Type" | "TupleType" | "FuncType" | "BufferRegionType":
                return f  # asked for by the nodes that have use for it
            case "Op":
                return _here(str(self.at(f["name"])))
            case "Var" | "SizeVar":
                return self._variable(name, f)
            case "IntImm":
                return n.IntImm(self._dtype_of(f), int(self.at(f["value"])))
            case "FloatImm":
                value = f["value"]
                return n.FloatImm(self._dtype_of(f), float(self.at(value) if isinstance(value, int) else value))
            case "Cast" | "Call":
                return self._node(key, name, {**f, "dtype": self._dtype_of(f)})
            case "TensorLoad" | "TensorRegion":
                return self._node(key, _RENAMED[name], {**f, "buffer": f["source"]})
            case "PrimFunc":
                return self._function(f)
        return self._node(key, name, f)

    def _dtype_of(self, f: Mapping[str, Any]) -> str:
        found = self.at(f["ty"])
        if not isinstance(found, str):
            raise ForeignError("the workload has an expression whose type is no number's")
        return found

    def _variable(self, name: str, f: Mapping[str, Any]) -> n.Var | n.Buffer:
        found = self.at(f["ty"])
        title = str(self.at(f["name"]))
        if isinstance(found, str):
            return n.SizeVar(title, found) if name == "SizeVar" else n.Var(title, found)
        if not isinstance(found, Mapping) or "shape" not in found:
            raise ForeignError(f"variable {title} of the workload is neither a number nor a buffer")
        if self.at(found["strides"]):
            raise ForeignError(f"buffer {title} of the workload has strides")
        return n.decl_buffer(self.at(found["shape"]), self.at(found["dtype"]), name=title)

    def _function(self, f: Mapping[str, Any]) -> n.PrimFunc:
        """Its parameters are buffers; ours are handles that buffers belong to."""
        buffers = self.at(f["params"])
        if not all(isinstance(buffer, n.Buffer) for buffer in buffers):
            raise ForeignError("the workload has a parameter that is no buffer")
        handles = tuple(n.Var(f"{buffer.name}_handle", "handle") for buffer in buffers)
        attrs = {"global_symbol": "main", "tir.noalias": True}
        if self._whole:
            given = plain_attributes(self.at(f["attrs"]) or {})
            attrs = {_here(name): value for name, value in given.items() if name != "s_tir"}
        return n.PrimFunc(handles, self.at(f["body"]), None, dict(zip(handles, buffers)), attrs)


def _here(name: str) -> str:
    """Return the name of an intrinsic or an attribute here, which is TVM's earlier one."""
    return re.sub(r"^tirx\.", "tir.", name)
