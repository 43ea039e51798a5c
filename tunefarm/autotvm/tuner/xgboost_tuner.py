"""The tuner with a cost model of boosted trees."""

from tunefarm.autotvm.tuner import XGBTuner

__all__ = ["XGBTuner"]
