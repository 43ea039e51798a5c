"""Schedules of operators for Arm CPUs."""

from typing import TYPE_CHECKING

from compiler.topi.schedules.arm_cpu import *  # noqa: F403
from tunefarm.compatibility import refusing

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
