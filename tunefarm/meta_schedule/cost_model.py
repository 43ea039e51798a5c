"""Models that score candidates before they are measured."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.cost_models.cost_model import CostModel, PyCostModel, RandomModel, XGBModel
from tuner.faces.meta_schedule.cost_models.learned_speeds import FeatureGroup, XGBConfig, max_curve

create = CostModel.create

__all__ = ["CostModel", "FeatureGroup", "PyCostModel", "RandomModel", "XGBConfig", "XGBModel", "create", "max_curve"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
