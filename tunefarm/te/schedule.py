"""Schedules of tensor expressions."""

from compiler.te.schedule.schedule import Schedule, Stage, create_schedule

__all__ = ["Schedule", "Stage", "create_schedule"]
