"""Analyses of TensorIR functions."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tunefarm.tir.analysis import analysis
from tunefarm.tir.analysis.analysis import *  # noqa: F403

__all__ = ["analysis"]
__all__ += analysis.__all__

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
