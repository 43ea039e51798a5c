"""Things that stand for objects, and Python values as objects."""

from compiler.driver.objects import ObjectGeneric, convert, convert_to_object
from compiler.tir.ops import const

__all__ = ["ObjectGeneric", "const", "convert", "convert_to_object"]
