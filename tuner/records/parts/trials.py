"""Trials of runs, and claims of candidates before they are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, Engine

from tuner.records.db.base import StorePart, page_size
from tuner.records.model import NewTrial, Trial, TrialStatus
from tuner.records.runs import browse, catalog, claims, ingest, trials
from tuner.records.runs.browse import Cursor, TrialFilter
from tuner.records.runs.claims import ClaimAnswer, WantedClaims
from tuner.records.runs.sites import TaskSites


class TrialRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def __init__(self, engine: Engine, sites: TaskSites) -> None:
        super().__init__(engine)
        self._sites = sites

    def add(self, new: NewTrial, owner: str | None = None) -> int:
        """`add_all` of one; returns its id."""
        return self.add_all([new], owner)[0]

    def add_all(self, new: Sequence[NewTrial], owner: str | None = None) -> tuple[int, ...]:
        """Record trials, all or none, in their order; returns their ids.

        With `owner`, raises RunTakenOver unless the run is its. Claims on the candidates end.

        In the same transaction the run's counts, failures and curve follow, and the best configs. A verified
        trial that beats the incumbent of its workload, target, device class and toolchain replaces it by the
        rules of `tuner.records.lookup.best`. Raises InvalidRecord.
        """
        if not new:
            return ()
        return tuple(self._write(lambda c: ingest.add_trials(c, self._sites, new, owner)))

    def add_and_claim(
        self, new: Sequence[NewTrial], wanted: Sequence[WantedClaims], owner: str | None = None
    ) -> tuple[tuple[int, ...], list[dict[str, ClaimAnswer]]]:
        """Do `add_all`, then `claim` for each of `wanted`, as one.
        A tuner with results also asks for new candidates, and killing it leaves both or neither. Trials just added
        count in the claims' answers. Raises as those do."""
        if not wanted:
            return self.add_all(new, owner), []

        def both(connection: Connection) -> tuple[tuple[int, ...], list[dict[str, ClaimAnswer]]]:
            pairs = {(w.task_id, w.device_id) for w in wanted}
            pairs |= {(trial.task_id, trial.device_id) for trial in new if trial.device_id is not None}
            sites = self._sites.find(connection, pairs)
            catalog.lock_keys(connection, [site.key_id for site in sites.values()])  # all at once: in one order
            ids = ingest.add_trials(connection, self._sites, new, owner) if new else []
            return tuple(ids), [claims.claim(connection, sites[w.task_id, w.device_id], w.digests) for w in wanted]

        return self._write(both)

    def claim(self, task_id: int, device_id: int, digests: Sequence[str]) -> dict[str, ClaimAnswer]:
        """Claim candidates for the run of `task_id`, to measure on devices of the class of `device_id`.

        All runs in the store may ask for one, on the same workload, target, device class and toolchain. One run gets
        it (CLAIMED), until its trial is added, it is released, or the run is not renewed. Others get TAKEN. KNOWN
        gives an existing result: a verified time there, a failure there, or a box of any class that it crashed.
        Raises RecordNotFound.
        """
        if not digests:
            return {}
        [answers] = self.add_and_claim([], [WantedClaims(task_id, device_id, digests)])[1]
        return answers

    def release(self, task_id: int, device_id: int, digests: Sequence[str]) -> None:
        """Give claims up that will have no trial. Raises RecordNotFound."""
        if digests:
            pair = (task_id, device_id)
            self._write(lambda c: claims.release(c, self._sites.find(c, [pair])[pair], digests))

    def get(self, trial_id: int) -> Trial:
        """One trial. Raises RecordNotFound."""
        return self._read(lambda c: trials.get_trial(c, trial_id))

    def page(
        self, run_id: int, after: int | None = None, limit: int = 100, status: TrialStatus | None = None, *,
        before: int | None = None, with_trace: bool = True,
    ) -> tuple[Trial, ...]:  # fmt: skip
        """A page of a run's trials by rising sequence number, those above `after`.

        With `before`, the last ones below that number instead, by falling number. An unknown run has none.
        """
        return self._read(lambda c: trials.page(c, run_id, after, before, page_size(limit), status, with_trace))

    def all(self, run_id: int, page: int = 1000) -> Iterator[Trial]:
        """All trials of a run, in order, a page at a time."""
        after: int | None = None
        while found := self.page(run_id, after, page):
            yield from found
            after = found[-1].sequence

    def sample(
        self, run_id: int, workload_key: str, max_points: int = 500, target: str | None = None, *,
        with_trace: bool = False,
    ) -> tuple[Trial, ...]:  # fmt: skip
        """At most `max_points` trials of one workload, spread over the whole run: what a scatter plot shows.
        `target` chooses when a run has the workload on several. Raises RecordNotFound."""
        return self._read(lambda c: trials.sample(c, run_id, workload_key, max_points, target, with_trace))

    def find(
        self, wanted: TrialFilter, after: Cursor | None = None, limit: int = 100, *, with_trace: bool = False
    ) -> tuple[tuple[Trial, ...], Cursor | None]:
        """Return a page of all trials that are as `wanted`, by run and number, and the next one's cursor.
        None: that was the last. A page may be short, even empty, before the last one. Raises TargetError."""
        return self._read(lambda c: browse.page(c, wanted, after or Cursor(), page_size(limit), with_trace))

    def measured_digests(self, workload_key: str, target: str, device_class: str) -> frozenset[str]:
        """Digests of candidates tried for this workload and target on this device class, in any run.
        Those that failed before any device saw them count, too."""
        return self._read(lambda c: trials.measured_digests(c, workload_key, target, device_class))

    def fastest(
        self, workload_key: str, count: int, target: str | None = None, device_class: str | None = None
    ) -> tuple[Trial, ...]:
        """The fastest verified candidates for a workload, one trial each, fastest first.
        Without a device class they may be of several, whose times do not compare."""
        return self._read(lambda c: trials.top(c, workload_key, count, target, device_class))
