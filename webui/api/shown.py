"""Objects of the API that are made of the store's own.

Their fields and values follow those of a record's class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

R = TypeVar("R", bound="Shown")


class ApiObject(BaseModel):
    """Base of the API's objects."""

    model_config = ConfigDict(frozen=True)


class Shown(ApiObject):
    """Base of those that show a record; `shows` says which."""

    SHOWN: ClassVar[Mapping[str, str]] = {}
    """The record's field that each field shows."""

    @classmethod
    def of(cls, record: Any, **more: Any) -> Self:
        """Make the object that shows `record`. `more` are fields that the record does not have as such."""
        shown = {name: getattr(record, field) for name, field in cls.SHOWN.items() if name not in more}
        return cls(**shown, **more)


def shows(
    record: type,
    *,
    renamed: Mapping[str, str] | None = None,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
) -> Callable[[type[R]], type[R]]:
    """Decorator: the class shows all fields of the dataclass `record` but those `without`, or `only` some.

    A field that the class declares itself keeps the type given there. `renamed` gives fields another name in the API.
    """
    names = {
        (renamed or {}).get(field.name, field.name): field.name
        for field in fields(record)
        if field.name not in without and (only is None or field.name in only)
    }

    def add(reply: type[R]) -> type[R]:
        hints = get_type_hints(record)
        added: dict[str, Any] = {
            name: (hints[field], ...) for name, field in names.items() if name not in reply.model_fields
        }
        made = create_model(reply.__name__, __base__=reply, __module__=reply.__module__, __doc__=reply.__doc__, **added)
        made.SHOWN = {**reply.SHOWN, **names}
        return made

    return add
