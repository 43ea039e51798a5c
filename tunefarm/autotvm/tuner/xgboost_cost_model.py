"""The cost model of boosted trees."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.autotvm.cost_model import XGBoostCostModel

__all__ = ["XGBoostCostModel"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
