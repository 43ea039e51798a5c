"""Schedules of operators for x86 CPUs."""

from compiler.topi.schedules.x86 import *  # noqa: F403
from tunefarm.compatibility import refuse_other_names

refuse_other_names(__name__)
