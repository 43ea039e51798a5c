"""Helpers for tests of graphs."""

from compiler.relax.text.syntax_tree import dump_ast
from tunefarm.relax.testing import vm
from tunefarm.relax.testing.matmul import get_relax_matmul_module

__all__ = ["dump_ast", "get_relax_matmul_module", "vm"]
