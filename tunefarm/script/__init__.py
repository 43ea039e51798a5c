"""TVMScript: functions and modules written as Python text."""

from compiler.script.entry import from_source, ir_module
from compiler.script.source import ScriptError
from tunefarm.script import ir, relax, tir, tirx

__all__ = ["ScriptError", "from_source", "ir", "ir_module", "relax", "tir", "tirx"]
