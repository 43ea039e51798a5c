"""Schedules as programs for Apache TVM know them.

Traces of instructions, states, places of statements.
"""
