"""Databases of tuning records."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.databases.database import (
    Database,
    MemoryDatabase,
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    UnionDatabase,
)
from tuner.faces.meta_schedule.databases.json_database import JSONDatabase
from tuner.faces.meta_schedule.databases.sql_database import SQLDatabase
from tuner.faces.meta_schedule.record import TuningRecord, Workload

PyDatabase = Database
create = Database.create

__all__ = [
    "Database",
    "JSONDatabase",
    "MemoryDatabase",
    "OrderedUnionDatabase",
    "PyDatabase",
    "SQLDatabase",
    "ScheduleFnDatabase",
    "TuningRecord",
    "UnionDatabase",
    "Workload",
    "create",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
