"""Callbacks of `tune`."""

from tunefarm.autotvm.callback import log_to_file, progress_bar

__all__ = ["log_to_file", "progress_bar"]
