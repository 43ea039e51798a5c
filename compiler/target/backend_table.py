"""A table of backends by target kind. The runtime, the compiler and the tuner have one each."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Generic, TypeVar

from compiler.errors import TargetError
from compiler.target.options import KINDS

T = TypeVar("T")


class BackendTable(Generic[T]):
    """One row a target kind: a backend, or where it is ("package.module:NAME").

    A backend that is given by its place is imported when it is first asked for, so a process pays only for those it
    uses, and the table's own file imports none of them.
    """

    def __init__(self, rows: Mapping[str, str]) -> None:
        self._rows: dict[str, str | T] = dict(rows)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The target kinds that have a backend."""
        return tuple(self._rows)

    def find(self, kind: str) -> T | None:
        """Return the backend of a target kind, None where there is none."""
        row = self._rows.get(kind)
        if isinstance(row, str):
            module, name = row.split(":")
            row = self._rows[kind] = getattr(importlib.import_module(module), name)
        return row

    def find_for_device(self, device_type: str) -> T | None:
        """Return the backend of the first target kind that runs on devices of this type, None where there is none."""
        for kind in self._rows:
            if KINDS[kind].device == device_type:
                return self.find(kind)
        return None

    def register(self, kind: str, backend: T, override: bool = False) -> None:
        """Add a row. Raises TargetError for an unknown kind, or one that has a backend when `override` is false."""
        if kind not in KINDS:
            raise TargetError(f"there is no target kind {kind!r}", hint="declare it first: register_kind(name, kind)")
        if kind in self._rows and not override:
            raise TargetError(f"target kind {kind!r} has a backend", hint="pass override=True to replace it")
        self._rows[kind] = backend

    def remove(self, kind: str) -> None:
        """Forget the row of a target kind, if there is one."""
        self._rows.pop(kind, None)
