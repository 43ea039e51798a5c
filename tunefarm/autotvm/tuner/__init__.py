"""Tuners."""

from tunefarm.autotvm.tuner import callback
from tuner.autotvm.ga_tuner import GATuner
from tuner.autotvm.index_tuners import GridSearchTuner, RandomTuner
from tuner.autotvm.model_tuner import XGBTuner
from tuner.autotvm.tuner import Tuner

__all__ = ["GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner", "callback"]
