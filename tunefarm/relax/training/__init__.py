"""What training needs of graphs."""

from tunefarm.relax.training import utils

__all__ = ["utils"]
