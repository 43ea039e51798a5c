"""Facts: fields of a record that are stored as they were reported, and their columns.

A dataclass of facts (`model.TrialFacts`) is the only place that names them. The table's columns, the rows written
and read, the lines of files of records and the API's objects are made from its fields. So a new one is a field there
and a migration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound=msgspec.Struct)
R = TypeVar("R", bound="DataclassInstance")


@cache
def types_of(facts: type) -> Mapping[str, Any]:
    """Return the names of a class's facts with their types."""
    hints = get_type_hints(facts)
    return {field.name: hints[field.name] for field in fields(facts)}


def optional(kind: Any) -> tuple[Any, bool]:
    """Return a fact's type without None, and whether None was part of it."""
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    inner = [one for one in get_args(kind) if one is not NoneType]
    assert len(inner) == 1, f"{kind} is no type of a column"
    return inner[0], True


def column_type(kind: Any) -> type:
    """Return the type of the column that holds a fact: `list` and `dict` are JSON."""
    inner, _ = optional(kind)
    match get_origin(inner) or inner:
        case cls if cls is tuple:
            return list
        case cls if cls is Mapping:
            return dict
        case cls if cls in (str, int, float, bool, datetime):
            return inner  # type: ignore[no-any-return]
    raise TypeError(f"no column holds {kind}")


@cache
def _converted(facts: type, out: bool) -> tuple[tuple[str, Callable[[Any], Any] | None], ...]:
    """The facts with the function for each column's value (`out`: for the fact of a column's value)."""
    makers: dict[type, Callable[[Any], Any]] = {list: tuple} if out else {list: list, dict: dict}
    found = []
    for name, kind in types_of(facts).items():
        make = makers.get(column_type(kind))
        found.append((name, make if make is None or not optional(kind)[1] else partial(_unless_none, make)))
    return tuple(found)


def _unless_none(make: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else make(value)


def to_columns(facts: type, told: Any) -> dict[str, Any]:
    """Return the columns of what was told, by name."""
    return {
        name: getattr(told, name) if make is None else make(getattr(told, name))
        for name, make in _converted(facts, False)
    }


def from_columns(facts: type, row: Any) -> dict[str, Any]:
    """Return the facts in a row, by name."""
    return {
        name: getattr(row, name) if make is None else make(getattr(row, name)) for name, make in _converted(facts, True)
    }


def of_row(record: type[R], row: Any, **others: Any) -> R:
    """Return a record made of a row.
    Each field has the column of its name, except those that `others` gives."""
    names, values = _columns(record, tuple(others))
    return record(**dict(zip(names, values(row))), **others)


@cache
def _columns(record: Any, others: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of a record's other fields, two or more, and what gets their columns of a row."""
    names = tuple(name for name in record.__dataclass_fields__ if name not in others)
    return names, attrgetter(*names)


def copied(facts: type, source: Any) -> dict[str, Any]:
    """Return the facts of another object that has them, by name."""
    return {name: getattr(source, name) for name in types_of(facts)}


def _default(facts: type, name: str) -> Any:
    """Return a fact's default as files of records say it."""
    field = facts.__dataclass_fields__[name]  # type: ignore[attr-defined]
    if field.default_factory is not MISSING:
        return msgspec.field(default_factory=field.default_factory)
    return msgspec.field() if field.default is MISSING else msgspec.field(default=field.default)


def lines_with(facts: type) -> Callable[[type[S]], type[S]]:
    """Decorator of a line of a file of records: it has the facts too."""

    def add(line: type[S]) -> type[S]:
        added = [(name, kind, _default(facts, name)) for name, kind in types_of(facts).items()]
        config = line.__struct_config__
        return msgspec.defstruct(  # type: ignore[return-value]
            line.__name__,
            [field for field in added if field[0] not in line.__struct_fields__],
            bases=(line,),
            module=line.__module__,
            namespace={"__doc__": line.__doc__},
            tag_field=config.tag_field,
            tag=config.tag,
            frozen=config.frozen,
            forbid_unknown_fields=config.forbid_unknown_fields,
            kw_only=True,
        )

    return add
