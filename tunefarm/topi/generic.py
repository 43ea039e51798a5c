"""Schedules of operators for any target."""

from compiler.topi.schedules.generic import *  # noqa: F403
from tunefarm.compatibility import refuse_other_names

refuse_other_names(__name__)
