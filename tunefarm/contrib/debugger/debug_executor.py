"""`GraphModule` with the results of single kernels."""

from compiler.faces.graph_executor import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
