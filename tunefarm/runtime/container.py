"""Strings, shapes, arrays and maps as objects."""

from compiler.driver.objects import Array, Map
from compiler.runtime.core.values import ShapeTuple, String

__all__ = ["Array", "Map", "ShapeTuple", "String"]
