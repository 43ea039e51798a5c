"""Measured times, given another value: a test cannot know which of two measured times is the shorter."""

from __future__ import annotations

from sqlalchemy import text

from tuner.records.model import TrialPurpose
from tuner.records.store import RecordStore


def untuned_took(db: str, seconds: float) -> None:
    """Have every function as written have taken so long, so that builds take the config for it, or do not."""
    with RecordStore.open(db) as store, store._engine.begin() as connection:
        slow = text("UPDATE trials SET cost = :seconds WHERE purpose = :baseline")
        connection.execute(slow, {"seconds": seconds, "baseline": TrialPurpose.BASELINE})
        connection.execute(text("UPDATE run_tasks SET baseline_cost = :seconds"), {"seconds": seconds})
