"""TVMScript: functions and modules written as Python text."""

from compiler.script.entry import from_source, ir_module
from compiler.script.source import ScriptError
from tunefarm.compatibility import refuse_other_names
from tunefarm.script import ir, ir_builder, relax, tir, tirx

__all__ = ["ScriptError", "from_source", "ir", "ir_builder", "ir_module", "parse", "relax", "tir", "tirx"]

parse = from_source
"""`from_source` under its name in `tvm.script.parser`."""

refuse_other_names(__name__)
