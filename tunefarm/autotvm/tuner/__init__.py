"""Tuners."""

from tunefarm.autotvm.tuner import callback
from tuner.faces.autotvm.ga_tuner import GATuner
from tuner.faces.autotvm.index_tuners import GridSearchTuner, RandomTuner
from tuner.faces.autotvm.model_tuner import XGBTuner
from tuner.faces.autotvm.tuner import Tuner

__all__ = ["GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner", "callback"]
