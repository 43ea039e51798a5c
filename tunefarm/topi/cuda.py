"""Schedules of operators for NVIDIA GPUs."""

from compiler.topi.schedules.cuda import *  # noqa: F403
from tunefarm.compatibility import refuse_other_names

refuse_other_names(__name__)
