"""Loops made one."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.schedule.core.schedule import LoopRV, Schedule


def fuse_all(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    """Fuse nested loops, outermost first.
    A single loop stays, because a trace has no step that changes nothing."""
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]
