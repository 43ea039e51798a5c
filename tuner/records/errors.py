"""Errors of the record store."""

from __future__ import annotations

from compiler.errors import TunefarmError


class RecordError(TunefarmError):
    """Base of the record store's errors."""

    kind = "records"


class StoreMissing(RecordError, FileNotFoundError):
    """There is no database at the address given."""

    kind = "store_missing"


class StoreUnavailable(RecordError):
    """The database does not answer, is locked too long, is full or is not a database."""

    kind = "store_unavailable"


class SchemaMismatch(RecordError):
    """The database has another schema than this version of tunefarm works with.

    `detail` holds `found` and `wanted`, two revision names (`found` is None without any).
    """

    kind = "schema_mismatch"


class RecordNotFound(RecordError, LookupError):
    """No record has the id or key asked for."""

    kind = "record_not_found"


class InvalidRecord(RecordError, ValueError):
    """A record that contradicts itself or names a row that does not exist; nothing of the call was stored."""

    kind = "invalid_record"


class QuotaExceeded(RecordError):
    """A user has had as much of the farm as they may."""

    kind = "quota_exceeded"


class RunBusy(RecordError):
    """Another process works on the run."""

    kind = "run_busy"


class RunStopped(RecordError):
    """Someone asked the run to end."""

    kind = "run_stopped"


class RunTakenOver(RecordError):
    """This process was not heard of for so long that another one took the run."""

    kind = "run_taken_over"
