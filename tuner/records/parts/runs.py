"""Tuning runs: who works on them, how they stand, what they came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from sqlalchemy import Connection, Engine

from tuner.records.db.base import StorePart, page_size
from tuner.records.db.database import reading
from tuner.records.errors import InvalidRecord
from tuner.records.farm import quotas
from tuner.records.lookup.result import TaskResult
from tuner.records.model import CurvePoint, FailureCount, Improvement, NewRun, Run, RunState, RunUse
from tuner.records.runs import claims, prune, results, runs, stopping, trials
from tuner.records.runs.sites import TaskSites


class RunRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def __init__(self, engine: Engine, sites: TaskSites) -> None:
        super().__init__(engine)
        self._sites = sites

    def start(self, new: NewRun, state: RunState = RunState.RUNNING) -> Run:
        """Record a new run; its tasks come back in the order given, with their ids.
        Raises InvalidRecord, and QuotaExceeded when its user's quota is used up."""

        def start(connection: Connection) -> Run:
            total = new.options.get("total_trials") or sum(task.budget for task in new.tasks)
            quotas.check(connection, new.user, int(total))
            return runs.start_run(connection, new, state)

        return self._write(start)

    def set_state(
        self, run_id: int, state: RunState, message: str | None = None, *, at: datetime | None = None,
        use: RunUse | None = None,
    ) -> Run:  # fmt: skip
        """Change a run's state, as of `at` (default: now).
        An ended state sets `finished_at`; RUNNING (a resumed run) clears it. None keeps the message, and what the run
        used. Raises RecordNotFound."""
        return self._write(lambda c: runs.set_state(c, run_id, state, message, at, use))

    def queue(self, run_id: int) -> Run:
        """Let an ended run wait for a process that continues it.
        Raises RecordNotFound, and QuotaExceeded when its user's quota is used up."""

        def queue(connection: Connection) -> Run:
            quotas.check(connection, runs.get_run(connection, run_id).user, 0, run_id)
            return runs.set_state(connection, run_id, RunState.QUEUED, "", None)

        return self._write(queue)

    def set_budgets(self, run_id: int, budgets: Mapping[int, int]) -> Run:
        """Change tasks' trial budgets, by position. Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: runs.set_budgets(c, run_id, budgets))

    def take(
        self, run_id: int, owner: str, is_gone: Callable[[str], bool] = lambda _owner: False, queued_only: bool = False
    ) -> None:
        """Make the run `owner`'s for `claims.LEASE_S` seconds.
        Raises RunBusy while another owner renews it, unless `is_gone` knows that one to be dead. An earlier owner's
        claims are dropped. `queued_only`: raises RunStopped when the run no longer waits to be begun. Raises
        QuotaExceeded for an ended run whose user's quota is used up."""
        self._sites.forget()

        def take(connection: Connection) -> None:
            run = runs.get_run(connection, run_id)
            if run.state.ended:
                quotas.check(connection, run.user, 0, run_id)
            claims.take_run(connection, run_id, owner, is_gone, queued_only)
            stopping.clear(connection, run_id)

        self._write(take)

    def renew(self, run_id: int, owner: str, use: RunUse | None = None) -> None:
        """Keep the run and its claims for another `claims.LEASE_S` seconds, and record its use so far.
        Raises RunTakenOver, and RunStopped when `request_stop` asked for its end."""

        def renew(connection: Connection) -> None:
            claims.renew_run(connection, run_id, owner, use)
            stopping.check(connection, run_id)

        self._write(renew)

    def leave(
        self, run_id: int, owner: str, state: RunState, message: str = "", use: RunUse | None = None
    ) -> Run:  # fmt: skip
        """Give up the run in the given state, and all its claims; `use` is its whole use.
        Raises RunTakenOver."""
        return self._write(lambda c: claims.leave_run(c, run_id, owner, state, message, use))

    def request_stop(self, run_id: int, by: str = "") -> Run:
        """Ask whoever tunes the run to end it.
        That happens when that process next renews it; a run that nobody tunes is interrupted at once. Raises
        RecordNotFound; InvalidRecord when it has ended."""
        return self._write(lambda c: stopping.request(c, run_id, by))

    def left(self, is_gone: Callable[[str], bool]) -> tuple[int, ...]:
        """Runs that have not ended though nobody works on them.
        Their owner is gone, by `is_gone` or after `stopping.QUIET_S` silent seconds. Or no process took them up for
        as long."""
        return self._read(lambda c: stopping.left(c, is_gone))

    def end_left(self, run_id: int, is_gone: Callable[[str], bool], message: str) -> bool:
        """Interrupt a run of `left`, so that it can be resumed. False if it is no longer one of these."""
        return self._write(lambda c: stopping.end_left(c, run_id, is_gone, message))

    def get(self, run_id: int) -> Run:
        """One run. Raises RecordNotFound."""
        return self._read(lambda c: runs.get_run(c, run_id))

    def newest(self, limit: int = 50, before: int | None = None) -> tuple[Run, ...]:
        """The newest runs, newest first; with `before`, those older than that id."""
        return self._read(lambda c: runs.list_runs(c, before, page_size(limit)))

    def failures(self, run_id: int) -> tuple[FailureCount, ...]:
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

    def improvements(self, run_id: int) -> tuple[Improvement, ...]:
        """The trials at which the best cost of any task of a run fell, in order."""
        return self._read(lambda c: runs.improvements(c, run_id))

    def task_result(self, run_id: int, task_id: int) -> TaskResult | None:
        """Return the result of a run's task: by its finals, else by the search.
        None if nothing was measured."""
        return self._read(lambda c: results.task_result(c, run_id, task_id))

    def digests(self, run_id: int) -> frozenset[str]:
        """Digests of all candidates the run has trials of: what a resumed run need not try again."""
        return self._read(lambda c: trials.run_digests(c, run_id))

    def removable(self, run_id: int) -> str:
        """Why the run must stay; empty when `remove` may take it."""
        with reading(self._engine) as connection:
            try:
                prune.check_removable(connection, run_id)
            except InvalidRecord as error:
                return error.message
        return ""

    def remove(self, run_id: int) -> int:
        """Delete a run, its trials, and the candidates only it tried; returns how many trials.

        It is not one transaction but many, so that a long run does not stop others from writing. If it is cut short,
        call it again. Raises RecordNotFound; InvalidRecord while the run is under way or a best config comes from
        it.
        """
        removed = 0
        while count := self._write(lambda c: prune.remove_trials(c, run_id)):
            removed += count
        self._write(lambda c: prune.remove_run(c, run_id))
        return removed
