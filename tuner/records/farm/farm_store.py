"""The part of the record store around tuning: device events, tokens, releases, benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tuner.records.db.base import StoreBase, page_size
from tuner.records.db.types import utcnow
from tuner.records.errors import InvalidRecord
from tuner.records.farm import benches, device_events, device_history, release_files, releases, tokens
from tuner.records.farm.model_farm import (
    BenchResult,
    BenchRun,
    DeviceEvent,
    DeviceEventKind,
    NewBenchResult,
    NewBenchRun,
    Release,
    ReleaseDiff,
    ReleaseEntry,
    Role,
    Token,
)
from tuner.records.lookup.matching import Choice
from tuner.records.model import RunState, Trial


class FarmRecords(StoreBase):
    """Base of `RecordStore`, whose promises hold for these methods too."""

    # ------------------------------------------------------------------------------- devices

    def record_device_event(
        self,
        device_id: int,
        kind: DeviceEventKind,
        message: str = "",
        *,
        at: datetime | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> DeviceEvent:
        """Write down what happened to a device, as of `at` (default: now).

        A failed check makes what the device measured since its last passed one suspect: no election counts such a
        trial and no search starts from it until the device is CLEARED. Best configs follow in the same
        transaction. Raises RecordNotFound.
        """
        return self._write(lambda c: device_events.record(c, device_id, kind, message, at, data or {}))

    def device_events(self, device: str, limit: int = 100) -> tuple[DeviceEvent, ...]:
        """What happened to a device, by name, latest first."""
        return self._read(lambda c: device_events.of_device(c, device, page_size(limit)))

    def newest_device_events(self, limit: int = 50, before: int | None = None) -> tuple[DeviceEvent, ...]:
        """What happened in the fleet, latest first; with `before`, events older than that id."""
        return self._read(lambda c: device_events.newest(c, before, page_size(limit)))

    def device_trials(self, device: str, limit: int = 50) -> tuple[Trial, ...]:
        """The last trials that a device measured, by name, latest first, without traces."""
        return self._read(lambda c: device_history.trials(c, device, page_size(limit)))

    def device_benchmarks(self, device: str) -> tuple[BenchResult, ...]:
        """The last benchmark result of each kernel on a device."""
        return self._read(lambda c: device_history.benchmarks(c, device))

    # -------------------------------------------------------------------------------- tokens

    def new_token(
        self, name: str, role: Role, *, created_by: str = "", expires_at: datetime | None = None
    ) -> tuple[Token, str]:
        """Make a token; returns it with its secret, which cannot be had again. Raises InvalidRecord."""
        secret = tokens.new_secret()
        digest = tokens.digest_of(secret)
        return self._write(lambda c: tokens.add(c, name, digest, role, created_by, expires_at)), secret

    def revoke_token(self, name: str) -> Token:
        """Let a token open nothing from now on. Raises RecordNotFound."""
        return self._write(lambda c: tokens.revoke(c, name))

    def tokens(self, limit: int = 1000) -> tuple[Token, ...]:
        """All tokens, revoked ones too, oldest first."""
        return self._read(lambda c: tokens.list_all(c, page_size(limit)))

    def find_token(self, secret: str) -> Token | None:
        """The token with this secret, if it is valid now."""
        digest = tokens.digest_of(secret)
        found = self._read(lambda c: tokens.find(c, digest))
        return found if found is not None and found.valid(utcnow()) else None

    def note_token_use(self, token_id: int) -> None:
        """Write down that a token is in use; at most once a minute."""
        self._write(lambda c: tokens.note_use(c, token_id))

    # ------------------------------------------------------------------------------ releases

    def create_release(
        self,
        name: str,
        *,
        note: str = "",
        created_by: str = "",
        workloads: Sequence[str] = (),
        target: str | None = None,
        device_class: str | None = None,
    ) -> Release:
        """Freeze the best configs there are now: all, or those of the workloads (keys or names), target and device
        class given. Raises InvalidRecord for a name in use and when a workload has none."""
        return self._write(lambda c: releases.create(c, name, note, created_by, workloads, target, device_class))

    def import_release(self, file: release_files.ReleaseFile) -> Release:
        """Take in a release made elsewhere; it needs to be approved here. Raises InvalidRecord."""
        return self._write(
            lambda c: releases.store(c, file.name, file.note, file.created_by, file.entries, file.digest)
        )

    def approve_release(self, name: str, by: str) -> Release:
        """Let builds use a release. Approving it again changes nothing. Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: releases.approve(c, name, by))

    def remove_release(self, name: str) -> None:
        """Take a release back that was not approved. Raises RecordNotFound, InvalidRecord."""
        self._write(lambda c: releases.remove(c, name))

    def find_release(self, name: str) -> Release:
        """One release. Raises RecordNotFound."""
        return self._read(lambda c: releases.get(c, name))

    def releases(self, limit: int = 50, before: int | None = None) -> tuple[Release, ...]:
        """The newest releases, newest first; with `before`, those older than that id."""
        return self._read(lambda c: releases.newest(c, before, page_size(limit)))

    def release_entries(self, name: str) -> tuple[ReleaseEntry, ...]:
        """All configs of a release, by workload, target and device class. Raises RecordNotFound."""
        return self._read(lambda c: releases.entries(c, releases.get(c, name).id))

    def diff_releases(self, old: str, new: str) -> ReleaseDiff:
        """How release `new` differs from `old`. Raises RecordNotFound."""

        def ask(connection: Connection) -> ReleaseDiff:
            sides = [releases.entries(connection, releases.get(connection, name).id) for name in (old, new)]
            return release_files.diff(old, sides[0], new, sides[1])

        return self._read(ask)

    def release_best(
        self,
        name: str,
        workload_key: str,
        target: str,
        device_class: str | None = None,
        toolchain: str | None = None,
    ) -> Choice[ReleaseEntry]:
        """As `RecordStore.best`, among a release's configs alone. Raises RecordNotFound; InvalidRecord for a release
        that was not approved."""

        def ask(connection: Connection) -> Choice[ReleaseEntry]:
            release = releases.get(connection, name)
            if not release.approved:
                raise InvalidRecord(
                    f"release {name} is not approved", hint=f"approve it: tunefarm release approve {name}"
                )
            return releases.best(connection, release, workload_key, target, device_class, toolchain)

        return self._read(ask)

    # ---------------------------------------------------------------------------- benchmarks

    def start_bench_run(self, new: NewBenchRun) -> BenchRun:
        """Record that a suite begins to run."""
        return self._write(lambda c: benches.start(c, new))

    def add_bench_results(self, run_id: int, new: Sequence[NewBenchResult]) -> tuple[int, ...]:
        """Record results, all or none; returns their ids. Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: benches.add_results(c, run_id, new)) if new else ()

    def end_bench_run(self, run_id: int, state: RunState, message: str = "", *, at: datetime | None = None) -> BenchRun:
        """Say how a benchmark run ended. Raises RecordNotFound."""
        return self._write(lambda c: benches.end(c, run_id, state, message, at))

    def bench_run(self, run_id: int) -> BenchRun:
        """One benchmark run. Raises RecordNotFound."""
        return self._read(lambda c: benches.get(c, run_id))

    def bench_runs(self, limit: int = 50, before: int | None = None) -> tuple[BenchRun, ...]:
        """The newest benchmark runs, newest first; with `before`, those older than that id."""
        return self._read(lambda c: benches.newest(c, before, page_size(limit)))

    def bench_results(self, run_id: int, after: int = 0, limit: int = 100) -> tuple[BenchResult, ...]:
        """A benchmark run's results by rising sequence number, those above `after`."""
        return self._read(lambda c: benches.results(c, run_id, after, page_size(limit)))

    def bench_series(self, kernel: str, device: str, limit: int = 500) -> tuple[BenchResult, ...]:
        """The last results of a kernel on a device (by name), oldest first."""
        return self._read(lambda c: benches.series(c, kernel, device, page_size(limit)))
