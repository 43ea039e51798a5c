"""Callbacks of `tune`."""

from tunefarm.autotvm.callback import Monitor, log_to_database, log_to_file, progress_bar

__all__ = ["Monitor", "log_to_database", "log_to_file", "progress_bar"]
