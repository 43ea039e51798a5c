"""Models: their versions, kernels, end-to-end times, profiles and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlalchemy import Connection

from tuner.records.db.base import StorePart, page_size
from tuner.records.errors import InvalidRecord
from tuner.records.model_store import jobs, reading, writing
from tuner.records.model_store.facts import (
    ANYONE,
    GraphCall,
    KernelShare,
    Model,
    ModelTask,
    ModelTime,
    ModelVersion,
    NewModelTime,
    NewModelVersion,
    ProfileJob,
    Viewer,
)


class ModelRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method.

    `viewer` says who asks: a model exists only for its owner and its readers. Questions by a version's or a
    measurement's id are for callers that looked the version up for their viewer.
    """

    # -- what there is

    def page(self, limit: int = 50, before: int | None = None, viewer: Viewer = ANYONE) -> tuple[Model, ...]:
        """The newest models, newest first; with `before`, those older than that id."""
        return self._read(lambda c: reading.page(c, viewer, before, page_size(limit)))

    def get(self, model_id: int, viewer: Viewer = ANYONE) -> Model:
        """One model. Raises RecordNotFound."""
        return self._read(lambda c: reading.get(c, viewer, model_id))

    def find(self, name: str, viewer: Viewer = ANYONE) -> Model:
        """The model of a name, the viewer's own before those of others. Raises RecordNotFound."""
        found = self._read(lambda c: reading.named(c, viewer, name))
        if not found:
            raise reading.no_model(name)
        return found[0]

    def versions(self, model_id: int, limit: int = 50, before: int | None = None) -> tuple[ModelVersion, ...]:
        """A model's versions, newest first; with `before`, those older than that id."""
        return self._read(lambda c: reading.versions(c, model_id, before, page_size(limit)))

    def version(self, version_id: int, viewer: Viewer = ANYONE) -> ModelVersion:
        """One version. Raises RecordNotFound."""
        return self._read(lambda c: reading.version(c, viewer, version_id))

    def version_of(self, model_id: int, digest: str = "") -> ModelVersion:
        """The version of a model whose digest begins so; the newest without one. Raises RecordNotFound."""

        def ask(connection: Connection) -> ModelVersion | None:
            if digest:
                return reading.version_of(connection, model_id, digest)
            return next(iter(reading.versions(connection, model_id, None, 1)), None)

        found = self._read(ask)
        if found is None:
            raise reading.no_version(digest)
        return found

    def graph(self, version_id: int) -> tuple[GraphCall, ...]:
        """The calls of a version's graph, in order."""
        return self._read(lambda c: reading.graph(c, version_id))

    def tasks(self, version_id: int, kind: str | None = None) -> tuple[ModelTask, ...]:
        """A version's kernels, by the kind of target they are for, those with the most work first."""
        return self._read(lambda c: reading.tasks(c, version_id, kind))

    def runs(self, version_id: int, limit: int = 20) -> tuple[int, ...]:
        """The newest runs that tuned a version, by id, newest first."""
        return self._read(lambda c: reading.runs(c, version_id, page_size(limit)))

    # -- what was measured

    def of_run(self, run_id: int, viewer: Viewer = ANYONE) -> dict[str, int]:
        """The ids of the models that a run tunes, by name."""
        return self._read(lambda c: reading.of_run(c, viewer, run_id))

    def times(
        self, model_id: int, device_class: str | None = None, version_id: int | None = None, limit: int = 100,
        before: int | None = None,
    ) -> tuple[ModelTime, ...]:  # fmt: skip
        """A model's end-to-end measurements, newest first, of one version or on one device class if given.
        With `before`, those older than that id."""
        return self._read(lambda c: reading.times(c, model_id, device_class, version_id, before, page_size(limit)))

    def last_times(self, model_ids: Sequence[int]) -> dict[int, tuple[ModelTime, ...]]:
        """Return the newest end-to-end measurement of each model that has one, and the one before it.
        The one before is on the same device class."""
        return self._read(lambda c: reading.last_times(c, model_ids))

    def time(self, model_id: int, time_id: int) -> ModelTime:
        """One end-to-end measurement of a model. Raises RecordNotFound."""
        return self._read(lambda c: reading.time(c, model_id, time_id))

    def environments(self, device_class: str, limit: int = 50) -> tuple[Mapping[str, float], ...]:
        """The conditions of all models' newest measurements on a device class, newest first."""
        return self._read(lambda c: reading.environments(c, device_class, page_size(limit)))

    def device_classes(self, model_id: int) -> tuple[str, ...]:
        """The device classes that a model was measured on, by name."""
        return self._read(lambda c: reading.device_classes(c, model_id))

    def profile(self, time_id: int) -> tuple[KernelShare, ...]:
        """Where the time of a measured run went; empty where that is not known."""
        return self._read(lambda c: reading.profile(c, time_id))

    def newest_profile(self, version_id: int, device_class: str) -> tuple[int, tuple[KernelShare, ...]]:
        """Return the kernels of a version's newest profiled run on a device class.
        With them comes that measurement's id (0: none)."""
        return self._read(lambda c: reading.newest_profile(c, version_id, device_class))

    def newest_profile_of(self, model_id: int, device_class: str) -> tuple[int, tuple[KernelShare, ...]]:
        """`newest_profile` of whichever version of a model."""
        return self._read(lambda c: reading.newest_profile_of(c, model_id, device_class))

    # -- changes

    def register(self, new: NewModelVersion) -> ModelVersion:
        """Keep a version of a model, which is made if it is new.
        Its kernels replace the earlier ones for that kind of target. Readers are those of the first version until
        `set_readers`. Raises InvalidRecord."""
        return self.register_all([new])[0]

    def register_all(self, news: Sequence[NewModelVersion]) -> tuple[ModelVersion, ...]:
        """`register` many versions in one transaction: all of them, in their order, or none.
        Raises InvalidRecord."""
        return self._write(lambda c: reading.by_id(c, writing.register_all(c, news)))

    def set_readers(self, model_id: int, readers: Sequence[str], viewer: Viewer = ANYONE) -> Model:
        """Say who may see a model beside its owner. Raises RecordNotFound, also for who is not its owner."""

        def change(connection: Connection) -> Model:
            _owned(connection, model_id, viewer)
            writing.set_readers(connection, model_id, readers)
            return reading.get(connection, viewer, model_id)

        return self._write(change)

    def link_run(self, version_id: int, run_id: int) -> None:
        """Say that a run tunes a version. Raises RecordNotFound."""
        self._write(lambda c: writing.link_run(c, version_id, run_id))

    def add_time(self, new: NewModelTime) -> int:
        """Keep an end-to-end measurement, with its profile; returns its id.
        Raises RecordNotFound, InvalidRecord."""
        return self._write(lambda c: writing.add_time(c, new))

    def add_job(self, version_id: int, key: str = "", asked_by: str = "") -> ProfileJob:
        """Keep that a profile of a version was asked for. Raises RecordNotFound."""
        return self._write(lambda c: jobs.add(c, version_id, key, asked_by))

    def end_job(self, job_id: int, time_id: int | None = None, message: str = "") -> None:
        """Keep how a job ended: with the measurement `time_id`, else with a message. The first end counts."""
        self._write(lambda c: jobs.end(c, job_id, time_id, message))

    def renew_job(self, job_id: int, worker: str) -> None:
        """Keep that the process of this name works on a job.

        It will say so again within `jobs.LEASE_S` seconds. Raises InvalidRecord where the job has ended, or is another
        process's.
        """
        self._write(lambda c: jobs.renew(c, job_id, worker))

    def left_jobs(self, is_gone: Callable[[str], bool]) -> tuple[int, ...]:
        """Return jobs that have not ended though nobody works on them.
        Their worker is gone, by `is_gone`, or was silent for some minutes."""
        return self._read(lambda c: jobs.left(c, is_gone))

    def jobs(self, version_id: int, limit: int = 5) -> tuple[ProfileJob, ...]:
        """The newest profiles of a version that were asked for."""
        return self._read(lambda c: jobs.newest(c, version_id, page_size(limit)))

    def remove(self, model_id: int, viewer: Viewer = ANYONE) -> None:
        """Delete a model with its versions, files, times and profiles. What was tuned for it stays. Raises
        RecordNotFound, also for who is not its owner."""

        def change(connection: Connection) -> None:
            _owned(connection, model_id, viewer)
            writing.remove_model(connection, model_id)

        self._write(change)

    def remove_version(self, version_id: int, viewer: Viewer = ANYONE) -> None:
        """Delete one version. Raises RecordNotFound, also for who is not its model's owner."""

        def change(connection: Connection) -> None:
            _owned(connection, reading.version(connection, viewer, version_id).model_id, viewer)
            writing.remove_version(connection, version_id)

        self._write(change)

    # -- files

    def add_part(self, version_id: int, start: int, body: bytes, viewer: Viewer = ANYONE) -> ModelVersion:
        """Keep the next piece of a version's file.

        With the last piece, the whole is checked against the registered digest. Raises RecordNotFound, also for
        anyone but the model's owner. Raises InvalidRecord for a piece that does not follow, and for a whole that is
        another file, of which nothing stays.
        """

        def add(connection: Connection) -> tuple[ModelVersion, bool]:
            found = reading.version(connection, viewer, version_id)
            _owned(connection, found.model_id, viewer)
            end = writing.add_part(connection, version_id, start, body)
            right = end < found.file_bytes or writing.check_file(connection, version_id)
            return reading.version(connection, viewer, version_id), right

        made, right = self._write(add)
        if not right:
            raise InvalidRecord("what was sent is not the file that was registered", hint="send it again from byte 0")
        return made

    def keeps_files(self) -> bool:
        """Whether any version's file, or the beginning of one, is here."""
        return self._read(reading.any_part)

    def file(self, version_id: int, viewer: Viewer = ANYONE) -> Iterator[bytes]:
        """The pieces of a version's file, each read when it is wanted. Raises RecordNotFound."""
        found = self.version(version_id, viewer)
        if not found.kept:
            raise reading.no_version(f"{found.digest[:12]} with a file")
        at = 0
        while at < found.file_bytes:
            piece = self._read(lambda c, at=at: list(reading.parts(c, version_id, at)))  # type: ignore[misc]
            if not piece or piece[0][0] != at:  # removed meanwhile
                raise reading.no_version(version_id)
            yield piece[0][1]
            at += len(piece[0][1])


def _owned(connection: Connection, model_id: int, viewer: Viewer) -> Model:
    found = reading.get(connection, viewer, model_id)
    if not viewer.everything and found.owner != viewer.name:
        raise reading.no_model(model_id)
    return found
