"""The record store: what was tuned, measured and found best, in SQL.

`RecordStore` is the one door to it. Its docstrings are the contract that every backend keeps; the queries are
in the modules beside this one, a subject each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType

from sqlalchemy import Connection, Engine

from tuner.records.cost_models import ModelRecords
from tuner.records.db.base import page_size
from tuner.records.db.database import compact_sqlite, connect, parse_url, reading, show_url, sqlite_path
from tuner.records.db.migrate import state_of, upgrade
from tuner.records.errors import InvalidRecord
from tuner.records.farm.farm_store import FarmRecords
from tuner.records.lookup.remembered import RememberedLookups
from tuner.records.lookup.result import TaskResult
from tuner.records.lookup.served import ServedRecords
from tuner.records.model import (
    CurvePoint,
    Device,
    FailureCount,
    NewDevice,
    NewRun,
    NewTrial,
    NewWorkload,
    Run,
    RunState,
    Target,
    Trial,
    TrialStatus,
    Workload,
)
from tuner.records.runs import catalog, claims, ingest, prune, results, runs, stats, stopping, trials
from tuner.records.runs.claims import ClaimAnswer, Wanted
from tuner.records.runs.sites import Sites
from tuner.records.runs.stats import StoreStats


class RecordStore(FarmRecords, ServedRecords, ModelRecords):
    """A store that is open. Usable from any number of threads and processes at once.

    Every method is one transaction: what it returns is one state of the store, and what it was told is
    committed, and survives this process being killed, before it returns. A method that raises stored nothing.
    All raise StoreUnavailable when the database fails.
    """

    def __init__(self, engine: Engine) -> None:
        """Use `RecordStore.open`."""
        self._engine = engine
        self._sites = Sites()
        self._remembered = RememberedLookups(engine)

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
        self._remembered.close()
        self._engine.dispose()

    def __enter__(self) -> RecordStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------ what trials refer to

    def upsert_workload(self, new: NewWorkload) -> Workload:
        """The workload with that key, made if it is new. An existing one keeps what it has and gains what it
        lacked."""
        return self._write(lambda c: catalog.upsert_workload(c, new))

    def upsert_target(self, target: str) -> Target:
        """The target by its canonical text, made if it is new. Raises TargetError."""
        return self._write(lambda c: catalog.upsert_target(c, target))

    def upsert_device(self, new: NewDevice) -> Device:
        """The device by name and fingerprint, made if it is new, else seen now.

        A device whose fingerprint changed is another one: times measured before stay with the old.
        """
        return self._write(lambda c: catalog.upsert_device(c, new))

    def declare_compatible(self, device_class: str, serves_from: Sequence[str]) -> None:
        """Say that devices of `device_class` may be given configs of the classes `serves_from` (replacing what
        was said before). Raises RecordNotFound for a class no device of which was ever seen."""
        self._write(lambda c: catalog.declare_compatible(c, device_class, serves_from))

    def workload(self, key: str) -> Workload | None:
        """The workload with that key."""
        return self._read(lambda c: catalog.find_workload(c, key))

    def workloads(self, after: int = 0, limit: int = 100) -> tuple[Workload, ...]:
        """Workloads with an id above `after`, by id."""
        return self._read(lambda c: catalog.workloads(c, after, page_size(limit)))

    def targets(self, limit: int = 100) -> tuple[Target, ...]:
        """The targets tuned for, in the order they were first seen."""
        return self._read(lambda c: catalog.targets(c, page_size(limit)))

    def device_classes(self, limit: int = 100) -> tuple[str, ...]:
        """The device classes seen, in that order."""
        return self._read(lambda c: catalog.device_classes(c, page_size(limit)))

    def devices(self, after: int = 0, limit: int = 100) -> tuple[Device, ...]:
        """Devices with an id above `after`, by id."""
        return self._read(lambda c: catalog.devices(c, after, page_size(limit)))

    def devices_named(self, name: str) -> tuple[Device, ...]:
        """A device under each of its fingerprints, the one seen last at the end."""
        return self._read(lambda c: catalog.devices_named(c, name))

    def device(self, device_id: int) -> Device:
        """One device. Raises RecordNotFound."""
        return self._read(lambda c: catalog.find_device(c, device_id))

    # ---------------------------------------------------------------------------------- runs

    def start_run(self, new: NewRun, state: RunState = RunState.RUNNING) -> Run:
        """Record a new run; its tasks come back in the order given, with their ids. Raises InvalidRecord."""
        return self._write(lambda c: runs.start_run(c, new, state))

    def set_run_state(
        self, run_id: int, state: RunState, message: str | None = None, *, at: datetime | None = None
    ) -> Run:
        """Change a run's state, as of `at` (default: now). An ended state sets `finished_at`; RUNNING (a resumed
        run) clears it. None keeps the message. Raises RecordNotFound."""
        return self._write(lambda c: runs.set_state(c, run_id, state, message, at))

    def set_budgets(self, run_id: int, budgets: Mapping[int, int]) -> Run:
        """Change tasks' trial budgets, by position. Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: runs.set_budgets(c, run_id, budgets))

    def take_run(
        self,
        run_id: int,
        owner: str,
        is_gone: Callable[[str], bool] = lambda _owner: False,
        queued_only: bool = False,
    ) -> None:
        """Make the run `owner`'s for `claims.LEASE_S` seconds. Raises RunBusy while it is another's who renews it,
        unless `is_gone` knows that one to be dead. Claims an earlier owner left are dropped. `queued_only`: raises
        RunStopped when the run does not wait to be begun any more."""
        self._sites.forget()

        def take(connection: Connection) -> None:
            claims.take_run(connection, run_id, owner, is_gone, queued_only)
            stopping.clear(connection, run_id)

        self._write(take)

    def renew_run(self, run_id: int, owner: str) -> None:
        """Keep the run, and what it claims, for another `claims.LEASE_S` seconds. Raises RunTakenOver, and RunStopped
        when `request_stop` asked for its end."""

        def renew(connection: Connection) -> None:
            claims.renew_run(connection, run_id, owner)
            stopping.check(connection, run_id)

        self._write(renew)

    def request_stop(self, run_id: int, by: str = "") -> Run:
        """Ask whoever tunes the run to end it, which happens when that process next renews it; a run that nobody tunes
        is interrupted at once. Raises RecordNotFound; InvalidRecord when it has ended."""
        return self._write(lambda c: stopping.request(c, run_id, by))

    def left_runs(self, is_gone: Callable[[str], bool]) -> tuple[int, ...]:
        """Runs that have not ended though nobody works on them: their owner is gone, as `is_gone` says or because it
        was not heard of for `stopping.QUIET_S` seconds; or no process took them up for as long."""
        return self._read(lambda c: stopping.left(c, is_gone))

    def end_left_run(self, run_id: int, is_gone: Callable[[str], bool], message: str) -> bool:
        """Interrupt a run of `left_runs`, so that it can be resumed; False when it is none any more."""
        return self._write(lambda c: stopping.end_left(c, run_id, is_gone, message))

    def leave_run(self, run_id: int, owner: str, state: RunState, message: str = "") -> Run:
        """Give the run up in the state given, and every claim of it. Raises RunTakenOver."""
        return self._write(lambda c: claims.leave_run(c, run_id, owner, state, message))

    def run(self, run_id: int) -> Run:
        """One run. Raises RecordNotFound."""
        return self._read(lambda c: runs.get_run(c, run_id))

    def runs(self, limit: int = 50, before: int | None = None) -> tuple[Run, ...]:
        """The newest runs, newest first; with `before`, those older than that id."""
        return self._read(lambda c: runs.list_runs(c, before, page_size(limit)))

    def failure_histogram(self, run_id: int) -> tuple[FailureCount, ...]:
        """Failures of a run by task and kind, most frequent first, each with its first text."""
        return self._read(lambda c: runs.failures(c, run_id))

    def best_curve(
        self, run_id: int, workload_key: str, max_points: int = 500, target: str | None = None
    ) -> tuple[CurvePoint, ...]:
        """The trials at which the best verified cost of a run's workload fell, in order.

        At most `max_points` (2 or more), evenly thinned out, with the first and the last always in.
        `target` chooses when a run has the workload on several. Raises RecordNotFound.
        """
        if max_points < 2:
            raise InvalidRecord("a curve has at least 2 points")
        return self._read(lambda c: runs.best_curve(c, run_id, workload_key, max_points, target))

    def task_result(self, run_id: int, task_id: int) -> TaskResult | None:
        """What a run's task came to: by its finals, else by the search. None where nothing was measured."""
        return self._read(lambda c: results.task_result(c, run_id, task_id))

    # -------------------------------------------------------------------------------- trials

    def add_trial(self, new: NewTrial, owner: str | None = None) -> int:
        """`add_trials` of one; returns its id."""
        return self.add_trials([new], owner)[0]

    def claim(self, task_id: int, device_id: int, digests: Sequence[str]) -> dict[str, ClaimAnswer]:
        """Claim candidates for the run of `task_id`, to measure on devices of the class of `device_id`.

        Of all runs in the store that ask for one, on the same workload, target, device class and toolchain, one gets
        it (CLAIMED) until its trial is added, `release`, or its run is not renewed; others hear TAKEN. KNOWN gives
        the result where there is one: a verified time there, a failure there, or a box it crashed of any class.
        Raises RecordNotFound.
        """
        if not digests:
            return {}
        [answers] = self.add_trials_and_claim([], [Wanted(task_id, device_id, digests)])[1]
        return answers

    def release(self, task_id: int, device_id: int, digests: Sequence[str]) -> None:
        """Give claims up that will have no trial. Raises RecordNotFound."""
        if digests:
            pair = (task_id, device_id)
            self._write(lambda c: claims.release(c, self._sites.find(c, [pair])[pair], digests))

    def add_trials(self, new: Sequence[NewTrial], owner: str | None = None) -> tuple[int, ...]:
        """Record trials, all or none, in their order; returns their ids.

        With `owner`, raises RunTakenOver unless the run is its. Claims on the candidates end.

        In the same transaction the run's counts, failures and curve follow, and the best configs: a verified
        trial that beats the incumbent of its workload, target, device class and toolchain replaces it by the
        rules of `tuner.records.lookup.best`. Raises InvalidRecord.
        """
        if not new:
            return ()
        return tuple(self._write(lambda c: ingest.add_trials(c, self._sites, new, owner)))

    def add_trials_and_claim(
        self, new: Sequence[NewTrial], wanted: Sequence[Wanted], owner: str | None = None
    ) -> tuple[tuple[int, ...], list[dict[str, ClaimAnswer]]]:
        """`add_trials`, then `claim` for each of `wanted`, as one: a tuner that has results asks for what is next, and
        whoever kills it leaves both or neither. What was just added counts in the claims' answers. Raises as those do.
        """
        if not wanted:
            return self.add_trials(new, owner), []

        def both(connection: Connection) -> tuple[tuple[int, ...], list[dict[str, ClaimAnswer]]]:
            pairs = {(w.task_id, w.device_id) for w in wanted}
            pairs |= {(trial.task_id, trial.device_id) for trial in new if trial.device_id is not None}
            sites = self._sites.find(connection, pairs)
            catalog.lock_keys(connection, [site.key_id for site in sites.values()])  # all at once: in one order
            ids = ingest.add_trials(connection, self._sites, new, owner) if new else []
            return tuple(ids), [claims.claim(connection, sites[w.task_id, w.device_id], w.digests) for w in wanted]

        return self._write(both)

    def trial(self, trial_id: int) -> Trial:
        """One trial. Raises RecordNotFound."""
        return self._read(lambda c: trials.get_trial(c, trial_id))

    def trials(
        self,
        run_id: int,
        after: int | None = None,
        limit: int = 100,
        status: TrialStatus | None = None,
        *,
        before: int | None = None,
        with_trace: bool = True,
    ) -> tuple[Trial, ...]:
        """A page of a run's trials by rising sequence number, those above `after`.

        With `before`, the last ones below that number instead, by falling number. An unknown run has none.
        """
        return self._read(lambda c: trials.page(c, run_id, after, before, page_size(limit), status, with_trace))

    def all_trials(self, run_id: int, page: int = 1000) -> Iterator[Trial]:
        """All trials of a run, in order, a page at a time."""
        after: int | None = None
        while found := self.trials(run_id, after, page):
            yield from found
            after = found[-1].sequence

    def sample_trials(
        self,
        run_id: int,
        workload_key: str,
        max_points: int = 500,
        target: str | None = None,
        *,
        with_trace: bool = False,
    ) -> tuple[Trial, ...]:
        """At most `max_points` trials of one workload, spread over the whole run: what a scatter plot shows.
        `target` chooses when a run has the workload on several. Raises RecordNotFound."""
        return self._read(lambda c: trials.sample(c, run_id, workload_key, max_points, target, with_trace))

    def run_digests(self, run_id: int) -> frozenset[str]:
        """Digests of all candidates the run has trials of: what a resumed run need not try again."""
        return self._read(lambda c: trials.run_digests(c, run_id))

    def measured_digests(self, workload_key: str, target: str, device_class: str) -> frozenset[str]:
        """Digests of candidates tried for this workload and target on this device class, or that failed before
        any device saw them, in any run."""
        return self._read(lambda c: trials.measured_digests(c, workload_key, target, device_class))

    def top_traces(
        self, workload_key: str, count: int, target: str | None = None, device_class: str | None = None
    ) -> tuple[Trial, ...]:
        """The fastest verified candidates for a workload, one trial each, fastest first. Without a device class
        they may be of several, whose times do not compare."""
        return self._read(lambda c: trials.top(c, workload_key, count, target, device_class))

    # -------------------------------------------------------------------------- the store itself

    def stats(self, most_workloads: int = 50) -> StoreStats:
        """What is in the store, with the workloads that have the most trials."""
        return self._read(lambda c: stats.collect(c, page_size(most_workloads)))

    def removable(self, run_id: int) -> str:
        """Why the run must stay; empty when `remove_run` may take it."""
        with reading(self._engine) as connection:
            try:
                prune.check_removable(connection, run_id)
            except InvalidRecord as error:
                return error.message
        return ""

    def remove_run(self, run_id: int) -> int:
        """Delete a run, its trials, and the candidates only it tried; returns how many trials.

        Not one transaction but many, so that a long run does not stop others from writing; when it is cut short, do
        it again. Raises RecordNotFound; InvalidRecord while the run is under way or a best config comes from it.
        """
        removed = 0
        while count := self._write(lambda c: prune.remove_trials(c, run_id)):
            removed += count
        self._write(lambda c: prune.remove_run(c, run_id))
        return removed

    def compact(self) -> None:
        """Give the space of what was removed back to the disk (SQLite; PostgreSQL does so by itself)."""
        if self._engine.dialect.name == "sqlite":
            compact_sqlite(self._engine)
