"""Releases: best configs frozen under a name."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from tuner.goals import Goal
from tuner.records.db.base import StorePart, page_size
from tuner.records.errors import InvalidRecord
from tuner.records.farm import release_files, releases
from tuner.records.farm.model_farm import Release, ReleaseDiff, ReleaseEntry
from tuner.records.lookup.matching import Choice


class ReleaseRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method."""

    def create(
        self, name: str, *, note: str = "", created_by: str = "", workloads: Sequence[str] = (),
        target: str | None = None, device_class: str | None = None, goal: Goal = Goal.TIME,
    ) -> Release:  # fmt: skip
        """Freeze the best configs there are now.
        All, or those of the workloads (keys or names), target and device class given. They are chosen by `goal`.
        Raises InvalidRecord for a name in use and when a workload has none."""
        return self._write(lambda c: releases.create(c, name, note, created_by, workloads, target, device_class, goal))

    def take_in(self, file: release_files.ReleaseFile) -> Release:
        """Take in a release made elsewhere; it needs to be approved here. Raises InvalidRecord."""
        return self._write(
            lambda c: releases.store(c, file.name, file.note, file.created_by, file.entries, file.digest)
        )

    def approve(self, name: str, by: str) -> Release:
        """Let builds use a release. Approving it again changes nothing. Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: releases.approve(c, name, by))

    def remove(self, name: str) -> None:
        """Take a release back that was not approved. Raises RecordNotFound, InvalidRecord."""
        self._write(lambda c: releases.remove(c, name))

    def get(self, name: str) -> Release:
        """One release. Raises RecordNotFound."""
        return self._read(lambda c: releases.get(c, name))

    def newest(self, limit: int = 50, before: int | None = None) -> tuple[Release, ...]:
        """The newest releases, newest first; with `before`, those older than that id."""
        return self._read(lambda c: releases.newest(c, before, page_size(limit)))

    def entries(self, name: str) -> tuple[ReleaseEntry, ...]:
        """All configs of a release, by workload, target and device class. Raises RecordNotFound."""
        return self._read(lambda c: releases.entries(c, releases.get(c, name).id))

    def diff(self, old: str, new: str) -> ReleaseDiff:
        """How release `new` differs from `old`. Raises RecordNotFound."""

        def ask(connection: Connection) -> ReleaseDiff:
            sides = [releases.entries(connection, releases.get(connection, name).id) for name in (old, new)]
            return release_files.diff(old, sides[0], new, sides[1])

        return self._read(ask)

    def look_up(
        self, name: str, workload_key: str, target: str, device_class: str | None = None, toolchain: str | None = None
    ) -> Choice[ReleaseEntry]:
        """Look up as `BestRecords.look_up` does, among a release's configs alone.

        Raises RecordNotFound; InvalidRecord for a release
        that was not approved."""

        def ask(connection: Connection) -> Choice[ReleaseEntry]:
            release = releases.get(connection, name)
            if not release.approved:
                raise InvalidRecord(
                    f"release {name} is not approved", hint=f"approve it: tunefarm release approve {name}"
                )
            return releases.best(connection, release, workload_key, target, device_class, toolchain)

        return self._read(ask)
