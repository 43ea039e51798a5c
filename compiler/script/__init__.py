"""TVMScript: functions and modules written as Python text, read without running it."""
