"""Models that score candidates before they are measured."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.cost_models.cost_model import CostModel, PyCostModel, RandomModel, XGBModel
from tuner.faces.meta_schedule.cost_models.learned_speeds import FeatureGroup, XGBConfig, max_curve

create = CostModel.create

__all__ = ["CostModel", "FeatureGroup", "PyCostModel", "RandomModel", "XGBConfig", "XGBModel", "create", "max_curve"]

refuse_other_names(__name__)
