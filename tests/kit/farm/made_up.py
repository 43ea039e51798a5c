"""Messages made up at random from their types: each is one that the other end decodes, with values that it may know."""

from __future__ import annotations

import random
import re
from functools import cache
from typing import Any, get_args

import msgspec
from msgspec import inspect

_DEPTH = 3
_TEXTS = ("", "x", "cpu", "../../etc/passwd", "\x1b[2J\n", "ä" * 50, "x" * 199)


class MadeUp:
    """`known` gives texts and bytes of the session that messages may name, by field; `fixed` fields always have these
    values."""

    def __init__(self, rng: random.Random, known: dict[str, list[Any]], fixed: dict[str, Any]) -> None:
        self.rng, self.known, self.fixed = rng, known, fixed

    def message(self, kind: type) -> Any:
        """Raises msgspec.ValidationError where what was made up is outside the type's bounds after all."""
        values = self._struct(kind, 0)
        tag = kind.__struct_config__.tag
        return msgspec.convert({**values, kind.__struct_config__.tag_field: tag}, kind)

    def _struct(self, kind: type, depth: int) -> dict[str, Any]:
        made = {}
        for field in _fields(kind):
            if field.name in self.fixed:
                made[field.name] = self.fixed[field.name]
            elif field.required or self.rng.random() < 0.5:
                known = self.known.get(field.name)
                if known and self.rng.random() < 0.7:
                    made[field.name] = self.rng.choice(known)
                else:
                    made[field.name] = self._value(field.type, depth)
        return made

    def _value(self, kind: Any, depth: int) -> Any:
        rng = self.rng
        match kind:
            case inspect.Metadata():
                return self._value(kind.type, depth)
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType():
                low, high = kind.ge or 0, kind.le if kind.le is not None else 2**31
                return rng.choice((low, high, rng.randint(low, high), min(high, max(low, rng.randrange(8)))))
            case inspect.FloatType():
                low, high = kind.ge or 0.0, kind.le if kind.le is not None else 1e9
                return rng.choice((low, high, min(high, max(low, rng.random() * 10))))
            case inspect.StrType():
                pattern = getattr(kind, "pattern", None)
                fit = [text for text in _TEXTS if pattern is None or re.search(pattern, text)]
                text = rng.choice(fit or ["a"])
                return text[: kind.max_length]
            case inspect.BytesType():
                return rng.randbytes(rng.randrange(min(kind.max_length or 64, 64) + 1))
            case inspect.NoneType():
                return None
            case inspect.LiteralType():
                return rng.choice(kind.values)
            case inspect.EnumType():
                return rng.choice(list(kind.cls)).value
            case inspect.UnionType():
                return self._value(rng.choice(kind.types), depth)
            case inspect.VarTupleType() | inspect.ListType():
                most = 0 if depth >= _DEPTH else min(kind.max_length or 4, 4)
                least = kind.min_length or 0
                return [self._value(kind.item_type, depth + 1) for _ in range(rng.randint(least, max(most, least)))]
            case inspect.TupleType():
                return [self._value(one, depth + 1) for one in kind.item_types]
            case inspect.DictType():
                return {
                    self._value(kind.key_type, depth + 1): self._value(kind.value_type, depth + 1)
                    for _ in range(0 if depth >= _DEPTH else rng.randrange(3))
                }
            case inspect.StructType():
                tagged = {} if kind.tag is None else {kind.tag_field: kind.tag}
                return self._struct(kind.cls, depth + 1) | tagged
            case inspect.DataclassType():
                return {field.name: self._value(field.type, depth + 1) for field in kind.fields}
            case _:
                return rng.choice((None, 1, "x", b"x", 1.5, True))


@cache
def _fields(kind: type) -> tuple[inspect.Field, ...]:
    made = inspect.type_info(kind)
    assert isinstance(made, inspect.StructType)
    return made.fields


def kinds(union: Any) -> list[type]:
    return list(get_args(union))
