"""Arrays and maps of objects."""

from compiler.driver.objects import Array, Map

__all__ = ["Array", "Map"]
