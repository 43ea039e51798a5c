"""Models that score candidates before they are measured."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.cost_model import CostModel, PyCostModel, RandomModel

create = CostModel.create

__all__ = ["CostModel", "PyCostModel", "RandomModel", "create"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
