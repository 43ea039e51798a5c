"""TVMScript: functions and modules written as Python text."""

from typing import TYPE_CHECKING

from compiler.script.entry import from_source, ir_module
from compiler.script.source import ScriptError
from tunefarm.compatibility import refusing
from tunefarm.script import ir, ir_builder, relax, tir, tirx

__all__ = ["ScriptError", "from_source", "ir", "ir_builder", "ir_module", "relax", "tir", "tirx"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
