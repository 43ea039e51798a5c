"""From schedules to modules that run."""

from compiler.driver.build import compile_artifact, lower
from compiler.driver.graph import compile_module as compile
from tunefarm.driver import build_module
from tunefarm.driver.building import build

__all__ = ["build", "build_module", "compile", "compile_artifact", "lower"]
