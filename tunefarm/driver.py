"""From schedules to modules that run."""

from compiler.driver.build import build, compile_artifact, lower

__all__ = ["build", "compile_artifact", "lower"]
