"""Databases of tuning records: in memory, in files, in the record store, and combinations of these.

A query asks for a module *and* a target. Its code must be able to run on that target, and a record of another
machine is never returned. A record of exactly that target comes before one of another.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import replace
from statistics import median, median_low
from typing import Any, ClassVar, Literal

from compiler.faces.tir_schedule.schedule import Schedule
from compiler.ir.module import IRModule
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from tuner.errors import NumberError, TuningError, UnknownKindError
from tuner.faces.meta_schedule.record import FAILED_S, TuningRecord, Workload
from tuner.records.lookup.best import SINGLE_SAMPLE

Equality = Literal["structural", "ignore-tensor", "ignore-ndarray"]

_current: ContextVar[tuple[Database, ...]] = ContextVar("meta_schedule_databases", default=())


def counted(top_k: int) -> int:
    """Return `top_k`. Raises NumberError, a ValueError, where it is negative."""
    if top_k < 0:
        raise NumberError(f"top_k is at least 0, got {top_k}")
    return top_k


class Database(ABC):
    """The contract of every kind. Use one as a context, `with database:`, to make it `Database.current()`."""

    DatabaseType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    KINDS: ClassVar[dict[str, Callable[..., Database]]] = {}

    def __init__(self, module_equality: Equality = "structural") -> None:
        if module_equality not in ("structural", "ignore-tensor", "ignore-ndarray"):
            raise TuningError(
                f"module_equality {module_equality!r} is not there",
                hint='modules are compared by structure ("structural"); constants have no data to ignore',
            )
        self._tokens: list[Token[tuple[Database, ...]]] = []

    # -- what a kind gives

    @abstractmethod
    def has_workload(self, mod: IRModule) -> bool:
        """Whether there is a workload equal to `mod`."""

    @abstractmethod
    def commit_workload(self, mod: IRModule) -> Workload:
        """The workload of `mod`, made if it is new."""

    @abstractmethod
    def commit_tuning_record(self, record: TuningRecord) -> None:
        """Keep `record`; its workload must have been committed."""

    @abstractmethod
    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        """Return the `top_k` fastest records with a time, fastest first.
        A record without any schedule step, which is the function as written, is left out. So are those given back.
        Raises a ValueError for a negative `top_k`."""

    @abstractmethod
    def get_all_tuning_records(self) -> list[TuningRecord]:
        """All records, in the order they came."""

    def __len__(self) -> int:
        return len(self.get_all_tuning_records())

    def give_back(self, mod: IRModule, target: Target, keep: Trace | None = None) -> bool:
        """Take the present records of `mod` on `target` out of use, except those with the trace `keep`.

        They were slower in its model. Later records count again. Returns whether this kind of database can do it. A
        kind of your own cannot unless it overrides this.
        """
        return False

    def reject(self, record: TuningRecord) -> bool:
        """Take a schedule out of use: it failed when it was measured again.

        Later records of it count again. Returns whether this kind of database can do it. A kind of your own cannot
        unless it overrides this.
        """
        return False

    # -- what they all have

    def standing_records(self, workload: Workload) -> list[TuningRecord]:
        """The records that queries choose from: those with a time that no later record supersedes."""
        return self.get_top_k(workload, _ALL)

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        """The best record for `mod` on `target`, or None. `workload_name` is for messages only: names don't
        matter."""
        if not self.has_workload(mod):
            return None
        wanted = Target(target)
        found = [r for r in self.standing_records(Workload(mod)) if r.target is None or _runs_on(r.target, wanted)]
        return min(found, key=lambda r: (str(r.target) != str(wanted), expected(r)), default=None)

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        """The best schedule for `mod` on `target`, or None."""
        record = self.query_tuning_record(mod, target, workload_name)
        return None if record is None else Schedule.replay(mod, record.trace)

    def query_ir_module(self, mod: IRModule, target: Target, workload_name: str = "main") -> IRModule | None:
        """`mod` scheduled the best known way for `target`, or None."""
        schedule = self.query_schedule(mod, target, workload_name)
        return None if schedule is None else schedule.mod

    def query(
        self, mod: IRModule, target: Target, *, workload_name: str = "main",
        kind: Literal["schedule", "record", "ir_module"] = "schedule",
    ) -> Schedule | TuningRecord | IRModule | None:  # fmt: skip
        """One of the three above, by `kind`."""
        match kind:
            case "schedule":
                return self.query_schedule(mod, target, workload_name)
            case "record":
                return self.query_tuning_record(mod, target, workload_name)
            case "ir_module":
                return self.query_ir_module(mod, target, workload_name)
            case _:
                raise UnknownKindError(f"no kind of query {kind!r}", hint="there are schedule, record and ir_module")

    def dump_pruned(self, destination: Database) -> None:
        """Put the best record of each workload and target into `destination`."""
        best: dict[tuple[str, str], TuningRecord] = {}
        for workload in {r.workload.key: r.workload for r in self.get_all_tuning_records()}.values():
            for record in self.standing_records(workload):
                key = workload.key, str(record.target)
                best[key] = min(best.get(key, record), record, key=expected)
        for record in best.values():
            destination.commit_workload(record.workload.mod)
            destination.commit_tuning_record(record)

    def __enter__(self) -> Database:
        self._tokens.append(_current.set((*_current.get(), self)))
        return self

    def __exit__(self, *error: object) -> None:
        _current.reset(self._tokens.pop())

    @staticmethod
    def current() -> Database | None:
        """The innermost database entered, or None."""
        entered = _current.get()
        return entered[-1] if entered else None

    @staticmethod
    def create(kind: str | Callable[[Schedule], bool] = "json", *args: Any, **kwargs: Any) -> Database:
        """A database of `kind`: "json", "memory", "sql", "union", "ordered_union", or a scheduling function.

        Raises UnknownKindError for another kind.
        """
        if callable(kind):
            return ScheduleFnDatabase(kind, *args, **kwargs)
        made = Database.KINDS.get(kind)
        if made is None:
            known = ", ".join(sorted(Database.KINDS))
            raise UnknownKindError(f"no kind of database {kind!r}", hint=f"there are {known}")
        return made(*args, **kwargs)


_ALL = 1 << 30
_FEW = 3


def _runs_on(built: Target, wanted: Target) -> bool:
    """Whether code for `built` can run on `wanted`."""
    if built.kind != wanted.kind or built.architecture != wanted.architecture:
        return False
    return built.features <= wanted.features


def expected(record: TuningRecord) -> float:
    """Seconds a call by a record's samples: their median.
    A single one may have been lucky, so it counts as longer by an unknown scatter."""
    if not record.run_secs:
        return float("inf")
    return median(record.run_secs) * (1 + SINGLE_SAMPLE if len(record.run_secs) == 1 else 1)


def _schedule_of(record: TuningRecord) -> tuple[str, str, str]:
    """Its workload, trace and target."""
    return record.workload.key, record.trace.to_json(), str(record.target)


class MemoryDatabase(Database):
    """Records that end with the process.

    In queries a record with more samples of the same schedule supersedes those with fewer, and a later one of at
    least three supersedes all. So a finalist counts by what the finals measured, in turns with its rivals. Of schedules
    that were measured once, queries leave out those that were no faster than half of several finalists at first. The
    machine may have been slower at the finals, which says nothing for them. A record of a failure, with TVM's time for
    one, takes earlier ones of its schedule out of use.
    """

    def __init__(self, module_equality: Equality = "structural") -> None:
        super().__init__(module_equality)
        self._workloads: dict[str, Workload] = {}
        self._records: list[TuningRecord] = []
        self._given_back: set[int] = set()  # places of records
        self._standing: dict[tuple[str, str, str], list[TuningRecord]] = {}  # of each workload, trace and target
        self._places: dict[tuple[str, str, str], list[int]] = {}  # of a schedule's records
        self._at_first: dict[tuple[str, str, str], float] = {}  # the time of those that were measured again

    def has_workload(self, mod: IRModule) -> bool:
        return Workload(mod).key in self._workloads

    def commit_workload(self, mod: IRModule) -> Workload:
        workload = Workload(mod)
        return self._workloads.setdefault(workload.key, workload)

    def commit_tuning_record(self, record: TuningRecord) -> None:
        if record.workload.key not in self._workloads:
            raise TuningError("the record's workload was not committed", hint="call commit_workload first")
        self._keep(record)

    def _keep(self, record: TuningRecord) -> None:
        schedule = _schedule_of(record)
        self._places.setdefault(schedule, []).append(len(self._records))
        self._records.append(record)
        if record.failed:
            self._given_back.update(self._places[schedule])
            self._standing.pop(schedule, None)
            return
        standing, count = self._standing.setdefault(schedule, []), len(record.run_secs or ())
        most = max((len(other.run_secs or ()) for other in standing), default=0)
        if count > most or count >= _FEW:
            if standing:
                self._at_first.setdefault(schedule, min(map(expected, standing)))
            standing[:] = [record]
        elif count == most:
            standing.append(record)

    def reject(self, record: TuningRecord) -> bool:
        if self._standing.get(_schedule_of(record)):
            self.commit_tuning_record(replace(record, run_secs=(FAILED_S,)))
        return True

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        own = (r for place, r in enumerate(self._records) if place not in self._given_back)
        timed = [r for r in own if r.workload.key == workload.key and r.run_secs and r.trace.steps]
        return sorted(timed, key=lambda r: r.mean)[: counted(top_k)]

    def give_back(self, mod: IRModule, target: Target, keep: Trace | None = None) -> bool:
        kept = None if keep is None else keep.to_json()
        self._leave_out(Workload(mod).key, str(target), kept, len(self._records))
        return True

    def _leave_out(self, workload: str, target: str, keep: str | None, count: int) -> None:
        """Give back the records of a workload and a target among the first `count`."""
        slower = {
            place
            for place, record in enumerate(self._records[:count])
            if record.workload.key == workload and str(record.target) == target and record.trace.to_json() != keep
        }
        self._given_back |= slower
        gone = {id(self._records[place]) for place in slower}
        for standing in self._standing.values():
            standing[:] = [record for record in standing if id(record) not in gone]

    def standing_records(self, workload: Workload) -> list[TuningRecord]:
        own = {key: standing for key, standing in self._standing.items() if key[0] == workload.key and standing}
        middle: dict[str, float] = {}  # of several that were measured again, as they were at first, by target
        for target in {target for _, _, target in own}:
            again = [self._at_first[key] for key in own if key[2] == target and key in self._at_first]
            middle[target] = median_low(again) if len(again) > 1 else math.inf
        found = [
            record
            for key, standing in own.items()
            for record in standing
            if record.run_secs and (key in self._at_first or expected(record) < middle[key[2]])
        ]
        return sorted(found, key=lambda r: r.mean)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return list(self._records)

    @property
    def workloads(self) -> list[Workload]:
        """The workloads, in the order they came."""
        return list(self._workloads.values())


class UnionDatabase(Database):
    """Asks several databases and takes the best answer of all. Nothing can be committed to it."""

    def __init__(self, *databases: Database) -> None:
        super().__init__()
        self.databases = databases

    def has_workload(self, mod: IRModule) -> bool:
        return any(database.has_workload(mod) for database in self.databases)

    def commit_workload(self, mod: IRModule) -> Workload:
        raise TuningError("a union of databases only answers", hint="commit to one of its databases")

    def commit_tuning_record(self, record: TuningRecord) -> None:
        raise TuningError("a union of databases only answers", hint="commit to one of its databases")

    def get_top_k(self, workload: Workload, top_k: int) -> list[TuningRecord]:
        found = [record for database in self.databases for record in database.get_top_k(workload, top_k)]
        return sorted(found, key=lambda r: r.mean)[: counted(top_k)]

    def standing_records(self, workload: Workload) -> list[TuningRecord]:
        found = [record for database in self.databases for record in database.standing_records(workload)]
        return sorted(found, key=lambda r: r.mean)

    def get_all_tuning_records(self) -> list[TuningRecord]:
        return [record for database in self.databases for record in database.get_all_tuning_records()]

    def give_back(self, mod: IRModule, target: Target, keep: Trace | None = None) -> bool:
        done = [database.give_back(mod, target, keep) for database in self.databases]
        return all(done)

    def reject(self, record: TuningRecord) -> bool:
        done = [database.reject(record) for database in self.databases]
        return all(done)


class OrderedUnionDatabase(UnionDatabase):
    """Asks several databases in order and takes the first answer."""

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        answers = (database.query_tuning_record(mod, target, workload_name) for database in self.databases)
        return next((answer for answer in answers if answer is not None), None)

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        answers = (database.query_schedule(mod, target, workload_name) for database in self.databases)
        return next((answer for answer in answers if answer is not None), None)


class ScheduleFnDatabase(MemoryDatabase):
    """Answers every query with what a function makes of the module.
    The function returns False where it has no answer."""

    def __init__(self, schedule_fn: Callable[[Schedule], bool], module_equality: Equality = "structural") -> None:
        super().__init__(module_equality)
        self._schedule_fn = schedule_fn

    def query_schedule(self, mod: IRModule, target: Target, workload_name: str = "main") -> Schedule | None:
        schedule = Schedule(mod)
        return schedule if self._schedule_fn(schedule) else None

    def query_tuning_record(self, mod: IRModule, target: Target, workload_name: str = "main") -> TuningRecord | None:
        schedule = self.query_schedule(mod, target, workload_name)
        return None if schedule is None else TuningRecord(schedule.trace, Workload(mod), target=Target(target))


Database.KINDS.update(
    memory=MemoryDatabase, union=UnionDatabase, ordered_union=OrderedUnionDatabase, schedule_fn=ScheduleFnDatabase
)
