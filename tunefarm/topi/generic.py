"""Schedules of operators for any target."""

from typing import TYPE_CHECKING

from compiler.topi.schedules.generic import *  # noqa: F403
from tunefarm.compatibility import refusing

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
