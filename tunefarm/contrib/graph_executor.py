"""Networks with named inputs and numbered outputs."""

from compiler.faces.graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
