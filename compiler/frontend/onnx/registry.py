"""Converters: one row of the table is an operator from an opset on.

    @converter("Softmax", 13)
    def softmax(g: GraphBuilder, node: Node) -> Result: ...

A row holds from its opset until the next row of the same operator. `since=1` is an operator's whole history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from compiler.frontend.onnx.values import Value
from compiler.ir.base import RelaxExpr

if TYPE_CHECKING:
    from compiler.frontend.onnx.graph_builder import GraphBuilder
    from compiler.frontend.onnx.node import Node

Result: TypeAlias = "RelaxExpr | Value | Sequence[RelaxExpr | Value | None]"
Converter: TypeAlias = "Callable[[GraphBuilder, Node], Result]"


@dataclass(frozen=True, slots=True)
class RefusedOperator:
    """An operator that is not imported, and why."""

    reason: str


CONVERTERS: dict[tuple[str, str], list[tuple[int, Converter]]] = {}
"""Rows by domain and operator, ascending by the opset that they hold from."""
REFUSED: dict[tuple[str, str], RefusedOperator] = {}

INTEGER_RULES: dict[str, Callable[[GraphBuilder, Node], Result | None]] = {}
"""What operators of the default domain do with tensors that were dequantised; None: nothing, floats are wanted."""

MICROSOFT = "com.microsoft"


def converter(*names: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Register the converter of the operators `names` of `domain`, from opset `since` on."""

    def register(function: Converter) -> Converter:
        for name in names:
            rows = CONVERTERS.setdefault((domain, name), [])
            if any(row[0] == since for row in rows):
                raise ValueError(f"two converters of {domain or 'ai.onnx'}.{name} hold from opset {since}")
            rows.append((since, function))
            rows.sort(key=lambda row: row[0])
        return function

    return register


def on_integers(
    *names: str,
) -> Callable[[Callable[[GraphBuilder, Node], Result | None]], Callable[[GraphBuilder, Node], Result | None]]:
    """Register what the operators `names` do with tensors that were dequantised."""

    def register(function: Callable[[GraphBuilder, Node], Result | None]) -> Any:
        for name in names:
            INTEGER_RULES[name] = function
        return function

    return register


def refuse(reason: str, *names: str, domain: str = "") -> None:
    """State that the operators `names` are not imported, and why."""
    for name in names:
        REFUSED[domain, name] = RefusedOperator(reason)


def find(domain: str, name: str, opset: int) -> Converter | None:
    """The converter of an operator in an opset; None where there is none."""
    rows = CONVERTERS.get((domain, name))
    if not rows:
        return None
    position = bisect_right([since for since, _ in rows], opset)
    return rows[position - 1][1] if position else None
