"""Cost models in the store, on every database."""

from __future__ import annotations

import dataclasses

import pytest

from tests.kit.tuner.models import TARGET, candidates, fill, made_up_cost, task
from tuner.records.errors import InvalidRecord, RecordNotFound
from tuner.records.parts.cost_models import NewCostModel
from tuner.records.store import RecordStore


@pytest.fixture
def store(current_address):
    with RecordStore.open(current_address) as store:
        yield store


NEW = NewCostModel(
    target_family="llvm-x86_64-256",
    feature_version=1,
    format="lightgbm",
    body=b"tree\n\x00\xff",
    trained_on={"candidates": 7},
    rank_accuracy={"spearman": 0.5},
)


def test_the_newest_model_of_a_family_is_in_use(store):
    assert store.cost_models.in_use("llvm-x86_64-256", 1) is None
    first, second = store.cost_models.add(NEW), store.cost_models.add(dataclasses.replace(NEW, body=b"other"))
    assert (first.version, second.version) == (1, 2)
    found = store.cost_models.in_use("llvm-x86_64-256", 1)
    assert found == second
    assert found.body == b"other"
    assert store.cost_models.get(first.id) == first
    assert [m.id for m in store.cost_models.newest()] == [second.id, first.id]


def test_families_and_feature_versions_are_apart(store):
    store.cost_models.add(NEW)
    store.cost_models.add(dataclasses.replace(NEW, feature_version=2))
    assert store.cost_models.in_use("llvm-x86_64-512", 1) is None
    assert store.cost_models.in_use("llvm-x86_64-256", 2).version == 1


@pytest.mark.parametrize("body", [b"", bytes((8 << 20) + 1)])
def test_a_model_has_a_size(store, body):
    with pytest.raises(InvalidRecord):
        store.cost_models.add(dataclasses.replace(NEW, body=body))


def test_a_model_that_is_not_there(store):
    with pytest.raises(RecordNotFound):
        store.cost_models.get(7)


def test_what_was_measured_is_read_back_by_trace(store):
    fill(store, ["matmul:16,16,16"], 8)
    [key] = store.cost_models.tuning_keys()
    assert (key.target, key.device_class, key.workload) == (TARGET, "zen3/2t", task("matmul:16,16,16").key)
    expected = {c.trace_json: made_up_cost(c) for c in candidates(task("matmul:16,16,16"), 8)}
    assert store.cost_models.measured_traces(key.id) == pytest.approx(expected)
    assert len(store.cost_models.measured_traces(key.id, 2)) == 2
