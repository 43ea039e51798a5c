"""Help for tests of schedules."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compiler.faces.tir_schedule.schedule import Schedule
from compiler.faces.tir_schedule.trace import Trace
from compiler.ir.module import IRModule
from compiler.ir.structural import assert_structural_equal
from compiler.schedule.core.field_steps import FieldTraceError
from compiler.tir.nodes import PrimFunc

__all__ = ["assert_structural_equal_ignore_global_symbol", "verify_trace_roundtrip"]

_SYMBOL = "global_symbol"


def assert_structural_equal_ignore_global_symbol(
    func1: PrimFunc | IRModule, func2: PrimFunc | IRModule, *args: Any, **kwargs: Any
) -> None:
    """Compare functions, or modules, whatever symbols their functions have.
    Raises ValueError where they differ."""
    assert_structural_equal(_unnamed(func1), _unnamed(func2), *args, **kwargs)


def _unnamed(given: PrimFunc | IRModule) -> PrimFunc | IRModule:
    """A copy of the module whose functions have empty symbols."""
    if isinstance(given, PrimFunc):
        return given.with_attr(_SYMBOL, "")
    return IRModule(
        {
            var.name_hint: func.with_attr(_SYMBOL, "") if isinstance(func, PrimFunc) else func
            for var, func in given.functions.items()
        }
    )


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Take the steps of `sch` again on `mod`, from their texts, and compare what comes out.

    `text_format` is "json", "python", or both. Returns the last schedule made. Raises ValueError for other formats, and
    where the functions differ.
    """
    made = sch
    for text in [text_format] if isinstance(text_format, str) else text_format:
        made = Schedule(mod, debug_mask=debug_mask)
        match text:
            case "json":
                _take_json(sch.trace, made)
            case "python":
                exec("\n".join(sch.trace.as_python()), {"sch": made})
            case _:
                raise ValueError(f"text_format is 'json' or 'python', not {text!r}")
        assert_structural_equal(made.mod, sch.mod)
    return made


def _take_json(trace: Trace, made: Schedule) -> None:
    """Take the steps again from TVM's JSON, or from ours where a step is unknown to TVM."""
    try:
        text = json.dumps(trace.as_json())
    except FieldTraceError:
        Trace.from_json(trace.to_json()).apply_to_schedule(made)
    else:
        Trace.apply_json_to_schedule(text, made)
