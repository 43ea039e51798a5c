"""Nodes, spans, and how nodes are compared and saved."""

from compiler.ir.base import Node, Span
from compiler.ir.structural import (
    assert_structural_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from tunefarm.ir.json_objects import load_json, save_json

__all__ = [
    "Node", "Span", "assert_structural_equal", "get_first_structural_mismatch", "load_json", "save_json",
    "structural_equal", "structural_hash",
]  # fmt: skip
