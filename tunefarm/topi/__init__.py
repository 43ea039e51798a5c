"""The operator inventory: tensor definitions of common operators."""

from typing import TYPE_CHECKING

from compiler.topi import *  # noqa: F403
from compiler.topi import __all__ as __all__
from tunefarm.compatibility import refusing
from tunefarm.topi import tag as tag

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
