"""`GraphModule` with the results of single kernels."""

from compiler.faces.graph_executor import GraphModuleDebug
from compiler.faces.graph_executor import create_debug as create

__all__ = ["GraphModuleDebug", "create"]
