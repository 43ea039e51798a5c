"""Curves that compare cost models."""

from tuner.faces.autotvm.metric import average_recall, cover_curve, max_curve, mean_curve, recall_curve

__all__ = ["average_recall", "cover_curve", "max_curve", "mean_curve", "recall_curve"]
