"""Operations written as Python functions, and schedules printed as such."""

from compiler.faces.hybrid.module import HybridModule, build
from compiler.faces.hybrid.script import HybridOp, decorate, script, source_to_op
from tunefarm.compatibility import refuse_other_names
from tunefarm.te.hybrid import runtime

__all__ = ["HybridModule", "HybridOp", "build", "decorate", "runtime", "script", "source_to_op"]

refuse_other_names(__name__)
