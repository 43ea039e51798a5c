"""Callbacks of `tune`."""

from tuner.faces.autotvm.callback import log_to_file, progress_bar

__all__ = ["log_to_file", "progress_bar"]
