"""From schedules to modules that run."""

from compiler.driver.build import lower
from compiler.driver.graph import compile_module as compile
from tunefarm.driver.building import build

__all__ = ["build", "compile", "lower"]
