"""Databases of tuning records."""

from tunefarm.compatibility import refuse_other_names
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
    "Database", "JSONDatabase", "MemoryDatabase", "OrderedUnionDatabase", "PyDatabase", "SQLDatabase",
    "ScheduleFnDatabase", "TuningRecord", "UnionDatabase", "Workload", "create",
]  # fmt: skip

refuse_other_names(__name__)
