"""Answers of other packages for the compiler, by name, so that naming one imports nothing.

`tunefarm.relax` names the tuner's answers about schedules when it is imported. Programs that only run a built model
import it too.
"""

from __future__ import annotations

import importlib
from typing import Any

SCHEDULES, TUNER = "schedules of kernels", "tuning of kernels"
_named: dict[str, str] = {}


def name_answer(question: str, where: str) -> None:
    """Have `where`, "package.module:NAME", answer a question from now on. It is imported when first asked."""
    _named[question] = where


def answer(question: str) -> Any:
    """Return what was named for a question; None where nothing was."""
    where = _named.get(question)
    if where is None:
        return None
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)
