"""Rows that installed distributions add to the tables of backends, target kinds and strategies.

A distribution names them in its pyproject.toml, one group a table. Every process that has it on its path knows them:

    [project.entry-points."tunefarm.device_backends"]
    toy = "toy_backend.device:BACKEND"

Groups are read when a name is looked up that no row of ours has, or when all names are listed. A row's object is
imported at its first use. A name of ours is never replaced.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

from compiler.errors import TargetError

KIND_GROUP = "tunefarm.target_kinds"
BACKEND_GROUP = "tunefarm.backends"
DEVICE_GROUP = "tunefarm.device_backends"
TUNING_GROUP = "tunefarm.tuning_backends"
STRATEGY_GROUP = "tunefarm.strategies"

Rows = dict[str, dict[str, tuple[str, str]]]
"""By group and name: where the object is ("package.module:NAME"), and the distribution that says so."""

_log = logging.getLogger(__name__)
_rows: Rows | None = None
_loaded: dict[tuple[str, str], Any] = {}


def rows() -> Rows:
    """Return what the distributions on this process's path add, read once."""
    global _rows
    if _rows is None:
        _rows = _read()
    return _rows


def use_rows(given: Rows | None) -> None:
    """Set what `rows` would read, for example a parent process's rows, to save time.
    None: read them again when needed."""
    global _rows
    _rows = given
    _loaded.clear()


def names(group: str) -> tuple[str, ...]:
    """Return the names that a group has."""
    return tuple(rows().get(group, ()))


def load(group: str, name: str) -> Any:
    """Return the object of a group's name; None if the group has no such name.

    If it cannot be imported, raises the same TargetError each time, which names the distribution.
    """
    row = rows().get(group, {}).get(name)
    if row is None:
        return None
    key = group, name
    if key not in _loaded:
        _loaded[key] = _load(group, name, *row)
    found = _loaded[key]
    if isinstance(found, TargetError):
        raise found
    return found


def loadable(group: str) -> Iterator[tuple[str, Any]]:
    """Yield each name of a group with what it stands for.
    One that cannot be imported is left out, with a warning."""
    for name in names(group):
        try:
            yield name, load(group, name)
        except TargetError as error:
            _log.warning("%s", error)


def _load(group: str, name: str, place: str, distribution: str) -> Any:
    module, _, attributes = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
    except Exception as error:  # whatever their code raises: all else works on
        return TargetError(
            f"{name!r} of {group} is {place!r}, which cannot be imported: {type(error).__name__}: {error}",
            hint=f"it comes with the distribution {distribution!r}: mend or uninstall that",
        )
    return found


def _read() -> Rows:
    from importlib import metadata  # slow to import

    found: Rows = {}
    for distribution in metadata.distributions():
        if "[tunefarm." not in (distribution.read_text("entry_points.txt") or ""):
            continue
        for point in distribution.entry_points:
            row = point.value, distribution.name
            taken = found.setdefault(point.group, {}).setdefault(point.name, row)
            if taken[1] != row[1]:  # the same distribution may be on the path twice
                where = f"{point.name!r} of {point.group}"
                _log.warning("%s is in %s and in %s: the first counts", where, taken[1], row[1])
    return found


def merged(known: Mapping[str, Any], group: str) -> tuple[str, ...]:
    """Return a table's names, then those that the group adds."""
    return tuple(dict.fromkeys([*known, *names(group)]))
