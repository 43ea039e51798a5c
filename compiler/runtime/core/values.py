"""What packed functions pass besides arrays and numbers: strings, shapes, data types; and conversion to them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np

from compiler.dtype import DType, parse_dtype
from compiler.errors import ArgumentError
from compiler.ir.base import Node
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc, packed
from compiler.tir.nodes import PrimExpr
from compiler.tir.ops import const

Object = Node


class ObjectGeneric:
    """Something that stands for an object and can be turned into it."""

    def asobject(self) -> Any:
        """The object it stands for."""
        raise NotImplementedError(f"{type(self).__name__} does not say which object it stands for")


class String(str):
    """A string object: a str in every respect."""

    __slots__ = ()


class ShapeTuple(tuple[int, ...]):
    """A shape: non-negative integers. Equal to the tuple of them. Raises ArgumentError for anything else."""

    __slots__ = ()

    def __new__(cls, shape: Iterable[int]) -> ShapeTuple:
        items = tuple(shape)
        for item in items:
            if isinstance(item, bool) or not hasattr(item, "__index__") or item.__index__() < 0:
                raise ArgumentError(f"the shape {items} is not made of non-negative integers")
        return super().__new__(cls, (item.__index__() for item in items))

    def __repr__(self) -> str:
        return f"ShapeTuple({list(self)})"


class DataTypeCode(IntEnum):
    """DLPack's codes of kinds of numbers."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4


_CODES = {
    "int": DataTypeCode.INT,
    "uint": DataTypeCode.UINT,
    "bool": DataTypeCode.UINT,
    "float": DataTypeCode.FLOAT,
    "bfloat": DataTypeCode.BFLOAT,
    "handle": DataTypeCode.HANDLE,
}


class DataType(str):
    """A dtype such as "float32x4", equal to its text, with `type_code`, `bits` and `lanes`.

    A bool is an unsigned integer of one bit. Raises IRError for an unknown dtype.
    """

    _parsed: DType

    def __new__(cls, type_str: str) -> DataType:
        parsed = parse_dtype(str(type_str))
        made = super().__new__(cls, str(parsed))
        made._parsed = parsed
        return made

    @property
    def type_code(self) -> DataTypeCode:
        return _CODES[self._parsed.code]

    @property
    def bits(self) -> int:
        """Bits of one lane."""
        return 1 if self._parsed.code == "bool" else self._parsed.bits

    @property
    def lanes(self) -> int:
        return self._parsed.lanes

    def __repr__(self) -> str:
        return f'DataType("{self}")'


def convert_to_object(value: Any, span: object = None) -> Any:
    """`value` as an object: numbers become constants, strings `String`s; lists, tuples and dicts, what they hold.

    Raises ArgumentError for a value that no object can stand for.
    """
    match value:
        case Node() | NDArray() | Device() | Module() | PackedFunc() | String() | ShapeTuple() | DataType() | None:
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
            return [convert_to_object(item) for item in value]
        case dict():
            return {_key(key): convert_to_object(item) for key, item in value.items()}
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
