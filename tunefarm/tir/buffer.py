"""Buffers."""

from compiler.tir.nodes import Buffer, decl_buffer

__all__ = ["Buffer", "decl_buffer"]
