"""Kinds of target that rules, mutators and postprocessors have defaults for."""

from __future__ import annotations

from compiler.target.options import find_kind
from tuner.errors import TuningError


def require_cpu(kind: str, what: str) -> None:
    """Raise TuningError unless `kind` names a target kind of processors, or is "cpu", which means all."""
    found = find_kind(kind)
    if kind != "cpu" and (found is None or found.device != "cpu"):
        raise TuningError(f"there are no default {what} for {kind!r}", hint='there are for "llvm"')
