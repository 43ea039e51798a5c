"""Tuners that go through a space by index."""

from tunefarm.autotvm.tuner import GridSearchTuner, RandomTuner

__all__ = ["GridSearchTuner", "RandomTuner"]
