"""The operator inventory: tensor definitions of common operators."""

from compiler.topi import *  # noqa: F403
from compiler.topi import __all__ as __all__
from tunefarm.compatibility import refuse_other_names
from tunefarm.topi import tag as tag

refuse_other_names(__name__)
