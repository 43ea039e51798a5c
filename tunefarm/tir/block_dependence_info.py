"""Dependences between the blocks of a module."""

from compiler.faces.tir_schedule.state import BlockDependenceInfo, BlockScope, StmtSRef

__all__ = ["BlockDependenceInfo", "BlockScope", "StmtSRef"]
