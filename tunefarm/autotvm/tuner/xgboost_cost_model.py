"""The cost model of boosted trees."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.autotvm.cost_model import XGBoostCostModel

__all__ = ["XGBoostCostModel"]

refuse_other_names(__name__)
