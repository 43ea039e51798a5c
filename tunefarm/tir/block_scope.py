"""Places of statements in a scheduled module, and what blocks wait for."""

from compiler.faces.tir_schedule.state import BlockScope, Dependency, DepKind, StmtSRef

__all__ = ["BlockScope", "DepKind", "Dependency", "StmtSRef"]
