"""Make other people's text harmless for terminals and logs.

Only this module does it, where text comes in.

A device's name, a reason or an error is whatever its sender wrote. Control characters could move a terminal's cursor,
change its title or forge a line of a log. They are shown as escapes: `\\x1b[31m`.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")

_UNSAFE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")


def plain(text: str) -> str:
    """Return the text with control characters escaped.
    Tab and newline stay. What turns the direction of writing is escaped, too."""
    return _UNSAFE.sub(lambda found: ascii(found.group())[1:-1], text) if _UNSAFE.search(text) else text


def plainly(value: T) -> T:
    """The same for every text in a message or a builtin value."""
    return value if _is_plain(value) else _escaped(value)


_encoder = msgspec.json.Encoder()


def _is_plain(value: object) -> bool:
    """Whether its JSON shows at a glance that nothing needs escaping.
    That takes a hundredth of looking at each text.

    JSON escapes control characters below the space, and ASCII holds no other unsafe ones.
    """
    try:
        written = _encoder.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return False
    return written.isascii() and b"\\" not in written and b"\x7f" not in written


def _escaped(value: T) -> T:
    made: Any = value
    match value:
        case str():
            made = plain(value)
        case tuple() | list():
            made = type(value)(_escaped(item) for item in value)
        case dict():
            made = {_escaped(key): _escaped(item) for key, item in value.items()}
        case msgspec.Struct():
            names = type(value).__struct_fields__
            made = msgspec.structs.replace(value, **{name: _escaped(getattr(value, name)) for name in names})
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = dataclasses.fields(value)
            made = dataclasses.replace(value, **{field.name: _escaped(getattr(value, field.name)) for field in fields})
    return cast(T, made)


class PlainFormatter(logging.Formatter):
    """Formats records so that no text in them looks like another record: their further lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record)).replace("\n", "\n    ")


def log_plainly(form: str, level: int, **options: Any) -> None:
    """`logging.basicConfig` with a `PlainFormatter`."""
    logging.basicConfig(level=level, **options)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(PlainFormatter(form))
