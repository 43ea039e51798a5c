"""Builders of candidates."""

from tuner.meta_schedule.builder import Builder, BuilderInput, BuilderResult, LocalBuilder, PyBuilder

create = Builder.create

__all__ = ["Builder", "BuilderInput", "BuilderResult", "LocalBuilder", "PyBuilder", "create"]
