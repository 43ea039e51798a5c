"""The quotas of users."""

from __future__ import annotations

from tuner.records.db.base import StorePart, page_size
from tuner.records.farm import quotas
from tuner.records.farm.quotas import Quota, QuotaUse


class QuotaRecords(StorePart):
    """Part of `RecordStore`, whose promises hold for each method.
    `runs.start` and `runs.take` hold users to them."""

    def put(self, quota: Quota, *, by: str = "") -> Quota:
        """Set a user's quota, in place of the one there was."""
        return self._write(lambda c: quotas.put(c, quota, by))

    def remove(self, user: str) -> None:
        """Remove a user's quota.
        Everyone's quota, if there is one, then applies. Raises RecordNotFound."""
        self._write(lambda c: quotas.remove(c, user))

    def all(self, limit: int = 1000) -> tuple[Quota, ...]:
        """All quotas, by user."""
        return self._read(lambda c: quotas.all_quotas(c, page_size(limit)))

    def of(self, user: str) -> Quota | None:
        """The quota that counts for a user: their own, else everyone's."""
        return self._read(lambda c: quotas.quota_of(c, user))

    def taken(self, user: str, days: int) -> QuotaUse:
        """A user's use within so many days."""
        return self._read(lambda c: quotas.taken(c, user, days))

    def hours_left(self, user: str) -> float | None:
        """Device hours that a user may still take; None without such a limit."""
        quota = self.of(user)
        if quota is None or quota.device_hours is None:
            return None
        return max(0.0, quota.device_hours - self.taken(user, quota.days).device_hours)
