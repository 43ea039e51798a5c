"""Python values as objects: what the compiler's and the runtime's functions take in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.errors import ArgumentError
from compiler.ir.base import Node
from compiler.runtime.core.device import Device
from compiler.runtime.core.module import Module
from compiler.runtime.core.ndarray import NDArray
from compiler.runtime.core.packed import PackedFunc, packed
from compiler.runtime.core.values import DataType, ShapeTuple, String
from compiler.tir.nodes import PrimExpr
from compiler.tir.ops import const

Object = Node


class ObjectGeneric:
    """Something that stands for an object and can be turned into it."""

    def asobject(self) -> Any:
        """The object it stands for."""
        raise NotImplementedError(f"{type(self).__name__} does not say which object it stands for")


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
