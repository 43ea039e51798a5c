"""Questions about graphs."""

from compiler.relax.analysis import *  # noqa: F403
from compiler.relax.analysis import __all__ as __all__
