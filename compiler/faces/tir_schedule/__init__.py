"""Schedules as programs for Apache TVM know them: traces of instructions, states, places of statements."""
