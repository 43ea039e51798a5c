"""Index maps as Apache TVM's traces carry them: as a saved graph of nodes, in two forms of JSON.

The older form has "root" and "nodes", each with "type_key" and text for its fields. The newer has "root_index", and
nodes with "type" and "data". Both are read, the older is written.
"""

from __future__ import annotations

import ast
import json
import math
from typing import Any

from compiler.schedule.core.map_text import map_places, parsed_map
from compiler.schedule.core.state import Illegal

_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}
_TYPES: dict[type[ast.operator], str] = {
    ast.Add: "tir.Add", ast.Sub: "tir.Sub", ast.Mult: "tir.Mul", ast.FloorDiv: "tir.FloorDiv", ast.Mod: "tir.FloorMod"
}  # fmt: skip
_CONSTANTS = (int, float)


# ------------------------------------------------------------------------------------ reading


def map_of_saved(text: str) -> str | int | float:
    """Return the text of the map that was saved, or the number of a map that gives one, as for padding.

    Raises ValueError, TypeError, KeyError or IndexError for text that is no saved map, or holds more than + - * // %.
    """
    graph = _Graph(json.loads(text))
    root = graph.fields(graph.root)
    variables = graph.items(root["initial_indices"])
    places = graph.items(root["final_indices"])
    names = [graph.text(graph.fields(var)["name"]) for var in variables]
    if len(set(names)) < len(names) or not all(name.isascii() and name.isidentifier() for name in names):
        names = [f"d{at}" for at in range(len(variables))]
    known = dict(zip(variables, names))
    if len(places) == 1 and (value := graph.constant(places[0])) is not None:
        return value if not isinstance(value, float) or math.isfinite(value) else str(value)
    written = "".join(f"{graph.expression(place, known)}, " for place in places).rstrip()
    return f"lambda {', '.join(names)}: ({written})"


class _Graph:
    """The nodes of a saved object, in either form."""

    def __init__(self, saved: Any) -> None:
        self._nodes = saved["nodes"]
        self._newer = "root_index" in saved
        self.root = int(saved["root_index" if self._newer else "root"])

    def kind(self, at: int) -> str:
        """The class of a node, without its namespace."""
        return str(self._nodes[at]["type" if self._newer else "type_key"]).rpartition(".")[2]

    def fields(self, at: int) -> dict[str, int]:
        """The fields of a node that hold nodes. Other fields have no use here."""
        held = self._nodes[at]["data" if self._newer else "attrs"]
        return {key: int(value) for key, value in held.items() if str(value).isdecimal()}

    def items(self, at: int) -> list[int]:
        """The items of a list."""
        return [int(item) for item in self._nodes[at]["data"]]

    def text(self, at: int) -> str:
        return str(self._nodes[at]["data" if self._newer else "repr_str"])

    def constant(self, at: int) -> int | float | None:
        """The number that a node is; None for another node."""
        kind = self.kind(at)
        if kind not in ("IntImm", "FloatImm"):
            return None
        value = self._nodes[at]["data" if self._newer else "attrs"]["value"]
        if kind == "FloatImm":
            return float(value)
        return int(self._nodes[value]["data"] if self._newer else value)

    def expression(self, at: int, names: dict[int, str]) -> str:
        """The text of an expression of the variables `names`."""
        if at in names:
            return names[at]
        number, kind = self.constant(at), self.kind(at)
        if number is not None:
            return str(number)
        if kind not in _SIGNS:
            raise ValueError(f"an index map is made of its indices and + - * // %, not {kind[:40]}")
        fields = self.fields(at)
        return f"({self.expression(fields['a'], names)} {_SIGNS[kind]} {self.expression(fields['b'], names)})"


# ------------------------------------------------------------------------------------ writing


def saved_map(value: str | int | float, rank: int = 0) -> str:
    """The saved graph of a map's text, or of the map from `rank` places to a number.
    Raises Illegal for a text that is no map."""
    if not isinstance(value, str) or value in ("inf", "-inf", "nan"):
        names, places = padding_names(rank), [ast.Constant(value=float(value) if isinstance(value, str) else value)]
        return _saved(names, list(places))
    parsed = parsed_map(value)
    return _saved([a.arg for a in parsed.args.args], map_places(parsed))


def padding_names(rank: int) -> list[str]:
    """TVM's names for the places of padding."""
    return [f"indices_{at}" for at in range(rank)]


def places_of(text: str) -> int:
    """Return how many places the map `text` gives. Raises Illegal for a text that is no map."""
    return len(map_places(parsed_map(text)))


def python_of_map(value: str | int | float, rank: int = 0) -> str:
    """The map as TVM prints it in Python."""
    if not isinstance(value, str) or value in ("inf", "-inf", "nan"):
        number = f"T.float32({value:g})" if isinstance(value, float) else str(value)
        return f"lambda {', '.join(padding_names(rank))}: ({number},)"
    parsed = parsed_map(value)
    places = map_places(parsed)
    return (
        f"lambda {', '.join(a.arg for a in parsed.args.args)}: ({''.join(f'{ast.unparse(p)}, ' for p in places)[:-1]})"
    )


def _saved(names: list[str], places: list[ast.expr]) -> str:
    """The nodes in the order in which TVM meets them: a node before what its fields hold."""
    nodes: list[dict[str, Any]] = [{"type_key": ""}]
    variables: dict[str, int] = {}

    def add(kind: str, **held: Any) -> int:
        nodes.append({"type_key": kind, **held})
        return len(nodes) - 1

    def listed(items: list[Any], write: Any) -> int:
        at = add("Array", data=[])
        nodes[at]["data"] = [write(item) for item in items]
        return at

    def variable(name: str) -> int:
        attrs = {"dtype": "int32", "name": "", "span": "0", "type_annotation": ""}
        at = variables[name] = add("tir.Var", attrs=attrs)
        attrs["name"] = str(add("runtime.String", repr_str=name))
        attrs["type_annotation"] = str(add("PrimType", attrs={"dtype": "int32"}))
        return at

    def expression(node: ast.expr) -> int:
        match node:
            case ast.Name(id=name) if name in variables:
                return variables[name]
            case ast.Constant(value=value) if type(value) in _CONSTANTS:
                kind, dtype = ("FloatImm", "float32") if isinstance(value, float) else ("IntImm", "int32")
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                return add(kind, attrs={"dtype": dtype, "span": "0", "value": shown})
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return expression(ast.Constant(value=-value))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _TYPES:
                attrs = {"a": "", "b": "", "dtype": "int32", "span": "0"}
                at = add(_TYPES[type(op)], attrs=attrs)
                attrs["a"], attrs["b"] = str(expression(left)), str(expression(right))
                return at
        raise Illegal("the index map holds more than + - * // % of its arguments")

    attrs = {"final_indices": "", "initial_indices": "", "inverse_index_map": "0"}
    add("tir.IndexMap", attrs=attrs)
    attrs["initial_indices"] = str(listed(names, variable))
    attrs["final_indices"] = str(listed(places, expression))
    saved = {"root": 1, "nodes": nodes, "b64ndarrays": [], "attrs": {"tvm_version": "0.17.dev0"}}
    return json.dumps(saved, indent=2)
