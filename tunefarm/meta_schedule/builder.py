"""Builders of candidates."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.builder import Builder, LocalBuilder
from tuner.faces.meta_schedule.measure_types import BuilderInput, BuilderResult
from tuner.faces.meta_schedule.own_measuring import PyBuilder

create = Builder.create

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
