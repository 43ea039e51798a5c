"""Builders of candidates."""

from tuner.faces.meta_schedule.builder import Builder, BuilderInput, BuilderResult, LocalBuilder, PyBuilder

create = Builder.create

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create"]
