"""Analyses of TensorIR functions."""

from tunefarm.compatibility import refuse_other_names
from tunefarm.tir.analysis import analysis
from tunefarm.tir.analysis.analysis import *  # noqa: F403

__all__ = ["analysis"]
__all__ += analysis.__all__

refuse_other_names(__name__)
