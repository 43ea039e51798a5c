"""Operations written as Python functions, and schedules printed as such."""

from typing import TYPE_CHECKING

from compiler.faces.hybrid.module import HybridModule, build
from compiler.faces.hybrid.script import HybridOp, decorate, script, source_to_op
from tunefarm.compatibility import refusing
from tunefarm.te.hybrid import runtime

__all__ = ["HybridModule", "HybridOp", "build", "decorate", "runtime", "script", "source_to_op"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
