"""Python values as objects: the form in which functions of the compiler and the runtime take them."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from compiler.errors import ArgumentError
from compiler.ir.base import Node
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc, packed
from compiler.runtime.core.values import DataType, ShapeTuple, String
from compiler.runtime.measure.report import Report
from compiler.tir.nodes import PrimExpr
from compiler.tir.ops import const


class Object(ABC):  # noqa: B024  (nothing is abstract: it says what belongs together)
    """The common interface of nodes, arrays, modules, functions, strings, shapes and reports.

    They share no code, so it is a base by registration: `isinstance` and `issubclass` say so.
    """

    def same_as(self, other: object) -> bool:
        """True when `other` is this very object."""
        return self is other

    def _move(self) -> Self:
        """Give the object away; it is counted by Python here, so nothing changes."""
        return self


class Array(list[Any], Object):
    """A list of objects: `Array(values)` converts each. Equal to the list of them."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(convert_to_object(value) for value in values)


class Map(dict[Any, Any], Object):
    """A mapping of strings or objects to objects: `Map(values)` converts each. Equal to the dict of them."""

    def __init__(self, values: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        super().__init__((_key(key), convert_to_object(value)) for key, value in dict(values).items())


class ADT(tuple[Any, ...], Object):
    """Several objects with a number, `tag`, that tells which constructor made them."""

    tag: int

    def __new__(cls, tag: int, fields: Iterable[Any]) -> ADT:
        made = super().__new__(cls, (convert_to_object(value) for value in fields))
        made.tag = tag
        return made

    def __getnewargs__(self) -> tuple[int, tuple[Any, ...]]:
        return self.tag, tuple(self)


def tuple_object(fields: Iterable[Any] = ()) -> ADT:
    """Return objects held together as a tuple."""
    return ADT(0, fields)


for _kind in (Node, NDArray, Module, PackedFunc, String, ShapeTuple, Report):
    Object.register(_kind)


class ObjectGeneric:
    """Something that stands for an object and can be turned into it."""

    def asobject(self) -> Any:
        """The object it stands for."""
        raise NotImplementedError(f"{type(self).__name__} does not say which object it stands for")


def convert_to_object(value: Any, span: object = None) -> Any:
    """Return `value` as an object.

    Numbers become constants, strings `String`s, lists and tuples `Array`s, dicts `Map`s. Raises ArgumentError for a
    value that no object can stand for.
    """
    match value:
        case Object() | Device() | DataType() | None:
            return value
        case ObjectGeneric():
            return value.asobject()
        case bool() | int() | float():
            return const(value)
        case np.generic():
            return const(value.item(), value.dtype.name)
        case str():
            return String(value)
        case list() | tuple():
            return Array(value)
        case dict():
            return Map(value)
        case _ if callable(value) and not hasattr(value, "asexpr"):
            return packed(value)
        case _ if (stands_for := getattr(value, "asexpr", None)) is not None:
            return stands_for()
        case _:
            raise ArgumentError(f"cannot turn a {type(value).__module__}.{type(value).__qualname__} into an object")


def convert(value: Any, span: object = None) -> Any:
    """`convert_to_object`, which also makes packed functions of Python's."""
    if callable(value) and not isinstance(value, (Node, ObjectGeneric, Module)):
        return packed(value)
    return convert_to_object(value)


def _key(key: Any) -> Any:
    if isinstance(key, str):
        return String(key)
    if isinstance(key, (PrimExpr, Node)):
        return key
    raise ArgumentError(f"the key of a map is a string or an object, not {key!r}")
