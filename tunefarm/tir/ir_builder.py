"""Statements written one after the other."""

from compiler.tir.ir_builder import BufferVar, IRBuilder, create

__all__ = ["BufferVar", "IRBuilder", "create"]
