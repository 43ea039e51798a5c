"""Patterns of graphs: finding and replacing what has a form."""

from tunefarm.relax.dpl import context, pattern, rewrite
from tunefarm.relax.dpl.context import *  # noqa: F403
from tunefarm.relax.dpl.context import __all__ as _context
from tunefarm.relax.dpl.pattern import *  # noqa: F403
from tunefarm.relax.dpl.pattern import __all__ as _pattern
from tunefarm.relax.dpl.rewrite import *  # noqa: F403
from tunefarm.relax.dpl.rewrite import __all__ as _rewrite

__all__ = ["context", "pattern", "rewrite", *_context, *_pattern, *_rewrite]
