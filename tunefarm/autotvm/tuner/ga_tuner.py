"""The tuner by a genetic algorithm."""

from tunefarm.autotvm.tuner import GATuner

__all__ = ["GATuner"]
