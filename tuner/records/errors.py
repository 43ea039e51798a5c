"""Errors of the record store."""

from __future__ import annotations

from compiler.errors import TunefarmError


class RecordError(TunefarmError, kind="records"):
    """Base of the record store's errors."""


class StoreMissing(RecordError, FileNotFoundError, kind="store_missing"):
    """There is no database at the address given."""


class StoreUnavailable(RecordError, kind="store_unavailable"):
    """The database does not answer, is locked too long, is full or is not a database."""


class SchemaMismatch(RecordError, kind="schema_mismatch"):
    """The database has another schema than this version of tunefarm works with.

    `detail` holds `found` and `wanted`, two revision names (`found` is None without any).
    """


class RecordNotFound(RecordError, LookupError, kind="record_not_found"):
    """No record has the id or key asked for."""


class InvalidRecord(RecordError, ValueError, kind="invalid_record"):
    """A record that contradicts itself or names a row that does not exist; nothing of the call was stored."""


class QuotaExceeded(RecordError, kind="quota_exceeded"):
    """A user has had as much of the farm as they may."""


class RunBusy(RecordError, kind="run_busy"):
    """Another process works on the run."""


class RunStopped(RecordError, kind="run_stopped"):
    """Someone asked the run to end."""


class RunTakenOver(RecordError, kind="run_taken_over"):
    """This process was not heard of for so long that another one took the run."""
