"""Computations."""

from tuner.faces.auto_scheduler.compute_dag import ComputeDAG

__all__ = ["ComputeDAG"]
