"""TVMScript: functions and modules written as Python text."""

from compiler.script.entry import from_source, ir_module
from compiler.script.source import ScriptError
from tunefarm.compatibility import refuse_other_names
from tunefarm.script import ir, ir_builder, relax, tir, tirx

__all__ = ["ScriptError", "from_source", "ir", "ir_builder", "ir_module", "relax", "tir", "tirx"]

refuse_other_names(__name__)
