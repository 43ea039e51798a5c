"""Names of Apache TVM that are refused: why they are not here, and what to use instead.

A program that asks for one gets an error with this text. `docs/tvm-compatibility.md` lists them all.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol

from tunefarm import submodules
from tunefarm.refused_compiler_names import COMPILER
from tunefarm.refused_tuning_names import TUNING

REFUSED = {name: reason for reason, names in [*COMPILER, *TUNING] for name in names.split()}
"""Why a name is not here, by its path or the path of the module that it is in."""

_PRIVATE = ("_ffi_api", "_ffi_node_api", "_type_checker")
"""Modules of Apache TVM's own use that programs import."""

_INTERNAL = "functions of TVM's C++ library for its own use; the module's public names call what is here"


class NameLookup(Protocol):
    def __call__(self, name: str) -> Any: ...


def why_not(path: str) -> str | None:
    """The reason why a name of Apache TVM is not here; None where none is given."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        reason = REFUSED.get(".".join(parts[:end]))
        if reason is not None:
            return reason
    return _INTERNAL if any(part in _PRIVATE for part in parts) else None


_BY_LAST = {(name.partition(".")[0], name.rpartition(".")[2]): reason for name, reason in REFUSED.items()}


def reason(path: str) -> str | None:
    """Return why a name, also under another path of its namespace, is not here. None without a reason."""
    return why_not(path) or _BY_LAST.get((path.partition(".")[0], path.rpartition(".")[2]))


def refusing(module: str) -> NameLookup:
    """A module's `__getattr__` that says why a name of Apache TVM is not there."""

    def missing(name: str) -> Any:
        if name == "__path__":
            return []  # so that Python looks for its parts, and for what stands for refused names
        found = submodules.part(module, name)
        if found is None:
            raise AttributeError(absent(module, name))
        return found

    return missing


def refuse_other_names(module: str) -> None:
    """Let a loaded module say why a name of Apache TVM is not there. Type checkers see nothing of it."""
    vars(sys.modules[module])["__getattr__"] = refusing(module)


def absent(module: str, name: str) -> str:
    """Say that a module does not have a name, and why."""
    why = reason(f"{module.removeprefix('tunefarm.')}.{name}")
    return f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else "")


submodules.install(absent, reason)
