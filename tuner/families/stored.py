"""Families in a record store, found by what they compute."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from compiler.errors import TunefarmError
from tuner.families.family import family_key
from tuner.records.model import Run
from tuner.records.parts.families import StoredFamily
from tuner.records.store import RecordStore


def newest_family(store: RecordStore, key: str, target: str, device_class: str | None = None) -> StoredFamily | None:
    """The newest record of a family for a target, also one that an earlier version kept under another key."""
    if (found := store.families.in_use(key, target, device_class)) is not None:
        return found
    kept = store.families.all_in_use(target, device_class)
    return next((family for family in reversed(kept) if key_now(family.record.get("what")) == key), None)


def families_of_run(store: RecordStore, run: Run) -> Mapping[int, str]:
    """The names of the families that a run has tuned, by their numbers."""
    asked = [record["family"] for record in run.options.get("workloads", ()) if "family" in record]
    return store.families.of_run(run.id, {key_now(what) for what in asked}) if asked else {}


def key_now(what: object) -> str:
    """The key that this version gives a recorded function; "" for one that it cannot read."""
    return _key_now(json.dumps(what, sort_keys=True)) if isinstance(what, Mapping) else ""


@lru_cache(maxsize=1024)
def _key_now(what: str) -> str:
    try:
        return family_key(json.loads(what))
    except TunefarmError:
        return ""
