"""Strings, shapes, arrays and maps as objects."""

from compiler.driver.objects import ADT, Array, Map, tuple_object
from compiler.runtime.core.values import ShapeTuple, String

__all__ = ["ADT", "Array", "Map", "ShapeTuple", "String", "tuple_object"]
