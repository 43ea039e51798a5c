"""The operator inventory: tensor definitions of common operators."""

from compiler.topi import *  # noqa: F403
from compiler.topi import __all__ as __all__
from tunefarm.topi import tag as tag
