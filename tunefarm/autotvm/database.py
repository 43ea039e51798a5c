"""Databases of results in memory."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.autotvm.log_databases import Database, DummyDatabase, filter_inputs

__all__ = ["Database", "DummyDatabase", "filter_inputs"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
