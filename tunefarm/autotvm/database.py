"""Databases of results in memory."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.autotvm.log_databases import Database, DummyDatabase, filter_inputs

__all__ = ["Database", "DummyDatabase", "filter_inputs"]

refuse_other_names(__name__)
