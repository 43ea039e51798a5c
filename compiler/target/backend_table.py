"""A table of backends by target kind. The runtime, the compiler and the tuner have one each."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Generic, TypeVar

from compiler.errors import TargetError
from compiler.target import entry_points
from compiler.target.options import find_kind

T = TypeVar("T")


class BackendTable(Generic[T]):
    """One row a target kind: a backend, or where it is ("package.module:NAME").

    Installed distributions add rows.

    A backend given by its place is imported when it is first asked for. So a process only pays for the backends it
    uses, and the table's own file imports none.
    """

    def __init__(self, rows: Mapping[str, str], group: str) -> None:
        """`group`: where distributions name the rows that they add. See `compiler.target.entry_points`."""
        self._rows: dict[str, str | T] = dict(rows)
        self._group = group

    @property
    def kinds(self) -> tuple[str, ...]:
        """The target kinds that have a backend."""
        return entry_points.merged(self._rows, self._group)

    def find(self, kind: str) -> T | None:
        """Return the backend of a target kind, None where there is none.

        Raises TargetError where a distribution's cannot be imported.
        """
        row = self._rows.get(kind)
        if row is None:
            added: T | None = entry_points.load(self._group, kind)
            return added
        if isinstance(row, str):
            module, name = row.split(":")
            row = self._rows[kind] = getattr(importlib.import_module(module), name)
        return row

    def find_for_device(self, device_type: str) -> T | None:
        """Return the backend of the first target kind that runs on devices of this type, or None."""
        for kind in self._rows:
            if (known := find_kind(kind)) is not None and known.device == device_type:
                return self.find(kind)
        for kind, known in entry_points.loadable(entry_points.KIND_GROUP):
            if known.device == device_type and (found := self.find(kind)) is not None:
                return found
        return None

    def register(self, kind: str, backend: T, override: bool = False) -> None:
        """Add a row.
        Raises TargetError for an unknown kind, or one that has a backend when `override` is false."""
        if find_kind(kind) is None:
            raise TargetError(f"there is no target kind {kind!r}", hint="declare it first: register_kind(name, kind)")
        if kind in self._rows and not override:
            raise TargetError(f"target kind {kind!r} has a backend", hint="pass override=True to replace it")
        self._rows[kind] = backend

    def remove(self, kind: str) -> None:
        """Forget the row of a target kind, if there is one."""
        self._rows.pop(kind, None)
