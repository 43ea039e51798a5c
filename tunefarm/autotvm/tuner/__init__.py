"""Tuners."""

from tunefarm.autotvm.tuner import callback, metric, xgboost_cost_model
from tunefarm.compatibility import refuse_other_names
from tuner.faces.autotvm.droplet_tuner import DropletTuner
from tuner.faces.autotvm.ga_tuner import GATuner
from tuner.faces.autotvm.index_tuners import GridSearchTuner, RandomTuner
from tuner.faces.autotvm.model_tuner import XGBTuner
from tuner.faces.autotvm.tuner import Tuner

__all__ = [
    "DropletTuner", "GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner", "callback", "metric",
    "xgboost_cost_model",
]  # fmt: skip

refuse_other_names(__name__)
