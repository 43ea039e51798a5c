"""Families in the store, on every database."""

from __future__ import annotations

import dataclasses

import pytest

from tuner.families.family import family_key
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.parts.families import MOST_BYTES, NewFamily
from tuner.records.store import RecordStore

KEY = family_key({"op": "dense", "args": ["M", 16, 8], "dtype": "float32"})
NEW = NewFamily(
    key=KEY,
    name="dense:M,16,8:float32",
    target="llvm",
    device_class="x86_64/znver3/2c",
    run_id=None,
    digest="d" * 64,
    loss=1.02,
    record={"format": "tunefarm.family", "seconds": [[1e-6, None]]},
)


@pytest.fixture
def store(current_address):
    with RecordStore.open(current_address) as store:
        yield store


def test_the_newest_of_a_place_is_in_use(store):
    assert store.families.in_use(KEY, "llvm") is None
    first, second = store.families.add(NEW), store.families.add(dataclasses.replace(NEW, loss=1.01))
    other = store.families.add(dataclasses.replace(NEW, device_class="other"))
    assert store.families.in_use(KEY, "llvm", NEW.device_class) == second
    assert store.families.in_use(KEY, "llvm") == other
    assert store.families.in_use(KEY, "cuda") is None
    assert store.families.get(first.id) == dataclasses.replace(first, current=False)
    assert store.families.all_in_use() == (second, other)
    assert store.families.all_in_use(device_class="other", name=KEY) == (other,)
    assert first.record == NEW.record
    assert [f.id for f in store.families.newest()] == [other.id, second.id, first.id]
    assert [f.id for f in store.families.newest(before=second.id)] == [first.id]
    assert store.families.newest(key="nothing") == ()
    with pytest.raises(RecordNotFound):
        store.families.get(other.id + 1)


def test_a_record_has_a_size(store):
    with pytest.raises(InvalidRecord, match="at most"):
        store.families.add(dataclasses.replace(NEW, record={"text": "x" * MOST_BYTES}))
