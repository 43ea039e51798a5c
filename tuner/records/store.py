"""The record store: what was tuned, measured and found best, in SQL.

All access goes through `RecordStore`. Its parts, one a subject, are in `tuner/records/parts/`; their docstrings are
the contract of every database. The queries lie beside them, a subject each.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from sqlalchemy import Engine

from tuner.records.db.base import StorePart, page_size
from tuner.records.db.database import compact_sqlite, connect, parse_url, reading, show_url, sqlite_path
from tuner.records.db.migrate import state_of, upgrade
from tuner.records.parts.benches import BenchRecords
from tuner.records.parts.best import BestRecords
from tuner.records.parts.cost_models import CostModelRecords
from tuner.records.parts.devices import DeviceRecords
from tuner.records.parts.families import FamilyRecords
from tuner.records.parts.models import ModelRecords
from tuner.records.parts.quotas import QuotaRecords
from tuner.records.parts.releases import ReleaseRecords
from tuner.records.parts.runs import RunRecords
from tuner.records.parts.tokens import TokenRecords
from tuner.records.parts.trials import TrialRecords
from tuner.records.parts.workloads import TargetRecords, WorkloadRecords
from tuner.records.runs import stats
from tuner.records.runs.sites import TaskSites
from tuner.records.runs.stats import StoreStats


class RecordStore(StorePart):
    """A store that is open. Usable from any number of threads and processes at once.

        with RecordStore.open("records.db", create=True) as store:
            run = store.runs.get(7)
            store.trials.all(run.id)

    Every method is one transaction: its result is one state of the store. Its changes are committed before it
    returns, and survive this process being killed. A method that raises stored nothing. All raise StoreUnavailable
    when the database fails.
    """

    def __init__(self, engine: Engine) -> None:
        """Use `RecordStore.open`."""
        super().__init__(engine)
        sites = TaskSites()
        self.workloads = WorkloadRecords(engine)
        self.targets = TargetRecords(engine)
        self.devices = DeviceRecords(engine)
        self.runs = RunRecords(engine, sites)
        self.trials = TrialRecords(engine, sites)
        self.best = BestRecords(engine)
        self.releases = ReleaseRecords(engine)
        self.models = ModelRecords(engine)
        self.cost_models = CostModelRecords(engine)
        self.families = FamilyRecords(engine)
        self.benches = BenchRecords(engine)
        self.tokens = TokenRecords(engine)
        self.quotas = QuotaRecords(engine)

    @staticmethod
    def open(address: str | Path, create: bool = False) -> RecordStore:
        """Open the store at `address`: a path, `sqlite:///path` or `postgresql://…`.

        With `create`, a SQLite file that is missing and a database without tables are set up first. Raises
        StoreMissing, StoreUnavailable, or SchemaMismatch when the schema is not this version's; an existing
        schema is never changed here.
        """
        url = parse_url(address)
        path = sqlite_path(url)
        if create and path is not None and not path.exists():
            upgrade(address)
        engine = connect(url)
        try:
            with reading(engine) as connection:
                state = state_of(connection, show_url(url))
            if create and state.version == "empty":
                upgrade(address)
            else:
                state.require()
        except BaseException:
            engine.dispose()
            raise
        return RecordStore(engine)

    @property
    def address(self) -> str:
        """Where the store is, without a password."""
        return show_url(self._engine.url)

    def close(self) -> None:
        """Give the connections back. The store must not be used afterwards."""
        self.best.close()
        self._engine.dispose()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def stats(self, most_workloads: int = 50) -> StoreStats:
        """Return what is in the store, with the workloads that have the most trials."""
        return self._read(lambda c: stats.collect(c, page_size(most_workloads)))

    def compact(self) -> None:
        """Give the space of removed records back to the disk (SQLite; PostgreSQL does so by itself)."""
        if self._engine.dialect.name == "sqlite":
            compact_sqlite(self._engine)
