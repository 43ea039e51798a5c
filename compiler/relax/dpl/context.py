"""Patterns of graphs: a `with` block constrains the patterns in it together."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from compiler.ir.base import RelaxExpr
from compiler.relax.dpl.constraints import Constraints, current, enter, leave
from compiler.relax.dpl.graph_match import Match, graph_matches
from compiler.relax.nodes import DataflowBlock, Var


class PatternContext:
    """The constraints of patterns that are found together in a dataflow block.

    with PatternContext() as ctx:
        product = is_op("relax.matmul")(wildcard(), wildcard())
        relu = is_op("relax.nn.relu")(product)
        product >> relu                  # and nothing else uses the product
        found = ctx.match_dfb(block)     # the variable of each pattern, or None
    """

    def __init__(self, incremental: bool = False) -> None:
        """An empty context; with `incremental`, one that begins with what holds in the context around it."""
        outer = current() if incremental else None
        self.constraints = Constraints() if outer is None else outer.copy()

    def __enter__(self) -> PatternContext:
        enter(self.constraints)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        leave()

    def match_dfb(self, dfb: DataflowBlock) -> Match | None:
        """Return the variable that each pattern stands for in `dfb`, the first way there is, or None."""
        return match_graph(self, dfb)


def match_graph(
    ctx: PatternContext, dfb: DataflowBlock, bindings: Mapping[Var, RelaxExpr] | None = None
) -> Match | None:
    """Return what the patterns of `ctx` stand for in `dfb`, or None.
    `bindings` are values known beside those of `dfb`."""
    return next(graph_matches(ctx.constraints, dfb, bindings), None)
