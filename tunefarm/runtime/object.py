"""The base of all objects."""

from compiler.driver.objects import Object

__all__ = ["Object"]
