"""Replay traces of Apache TVM's schedules on ours.

The same steps by the same names, the same decisions.

The result is a trace of our own. A step without a counterpart ends the replay with a ForeignError that names the
step.
"""

from __future__ import annotations

from typing import Any

from compiler.schedule.core.field_trace import FieldTraceError, play_field_json
from compiler.schedule.core.schedule import Schedule
from compiler.tir.nodes import PrimFunc
from tuner.faces.common.tvm_graph import ForeignError


def replay(func: PrimFunc, trace: Any) -> Schedule:
    """`func` scheduled as `trace` (TVM's `Trace.as_json()`: instructions and decisions) says.

    Raises ForeignError naming the step that is unknown, malformed or illegal here.
    """
    made = Schedule(func, seed=0)
    try:
        play_field_json(made, trace)
    except FieldTraceError as error:
        raise ForeignError(error.message) from None
    return made
