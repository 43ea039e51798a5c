"""Operators on images."""

from typing import TYPE_CHECKING

from compiler.topi.image import *  # noqa: F403
from compiler.topi.image import __all__ as __all__
from tunefarm.compatibility import refusing

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
