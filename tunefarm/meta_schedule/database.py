"""Databases of tuning records."""

from tuner.meta_schedule.database import (
    Database,
    MemoryDatabase,
    OrderedUnionDatabase,
    ScheduleFnDatabase,
    UnionDatabase,
)
from tuner.meta_schedule.json_database import JSONDatabase
from tuner.meta_schedule.record import TuningRecord, Workload
from tuner.meta_schedule.sql_database import SQLDatabase

__all__ = [
    "Database",
    "JSONDatabase",
    "MemoryDatabase",
    "OrderedUnionDatabase",
    "SQLDatabase",
    "ScheduleFnDatabase",
    "TuningRecord",
    "UnionDatabase",
    "Workload",
]
