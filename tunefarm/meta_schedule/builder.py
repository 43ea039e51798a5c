"""Builders of candidates."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.builder import Builder, LocalBuilder
from tuner.faces.meta_schedule.measure_types import BuilderInput, BuilderResult
from tuner.faces.meta_schedule.own_measuring import PyBuilder

create = Builder.create

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create"]

refuse_other_names(__name__)
