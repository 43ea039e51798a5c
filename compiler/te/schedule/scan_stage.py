"""Schedules of scans: the one loop of a scan, over the rows, has the stages of its updates in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compiler.te.scan import ScanOp
from compiler.te.schedule.nest import StageNest
from compiler.te.schedule.relations import AttachType
from compiler.te.schedule.stage import Stage

if TYPE_CHECKING:
    from compiler.schedule.core.schedule import Schedule as Engine
    from compiler.te.schedule.schedule import Schedule


def check_parts(schedule: Schedule) -> None:
    """Raise ScheduleError where a part of a scan is stored in another way, or computed elsewhere.
    The parts are inits and updates; what they compute are rows of the scan's result."""
    for scan in (stage.op for stage in schedule.stages):
        if not isinstance(scan, ScanOp):
            continue
        for stage in (schedule[tensor] for tensor in (*scan.init, *scan.update)):
            asked = {
                "set_scope": bool(stage.scope),
                "store_at": stage.store_stage is not None,
                "double_buffer": stage.double_buffered,
                "rolling_buffer": stage.rolled,
                "storage_align": bool(stage.alignments),
                "compute_at": stage.attach_type is AttachType.SCOPE,
                "compute_inline": stage.attach_type is AttachType.INLINE,
            }
            primitive = next((name for name, said in asked.items() if said), None)
            if primitive is not None:
                raise stage._illegal(
                    primitive,
                    f"stage {stage.name!r} computes rows of te.scan {scan.name!r}, where and as those are kept",
                    hint="cache_write it, and do so with the cache",
                )


def scan_nests(schedule: Schedule, engine: Engine, nests: Mapping[Stage, StageNest]) -> dict[Stage, StageNest]:
    """Make a nest for each scan whose updates `nests` holds: the loop over its rows."""
    found: dict[Stage, StageNest] = {}
    for stage in schedule.stages:
        if isinstance(stage.op, ScanOp) and (update := nests.get(schedule[stage.op.update[0]])) is not None:
            loop, *_ = engine.get_loops(update.block)
            found[stage] = StageNest(stage, update.block, loops={stage.op.scan_axis: loop})
    return found


def is_scan(stage: Stage) -> bool:
    return isinstance(stage.op, ScanOp)
