"""What the blocks of a module wait for."""

from compiler.faces.tir_schedule.state import BlockDependenceInfo, BlockScope, StmtSRef

__all__ = ["BlockDependenceInfo", "BlockScope", "StmtSRef"]
