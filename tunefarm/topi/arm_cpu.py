"""Schedules of operators for Arm CPUs."""

from compiler.topi.schedules.arm_cpu import *  # noqa: F403
from tunefarm.compatibility import refuse_other_names

refuse_other_names(__name__)
