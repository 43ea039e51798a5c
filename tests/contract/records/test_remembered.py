"""Lookups that the store answers from memory, on every backend, and the marks that say for how long it may."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import pytest
from sqlalchemy import text

from tests.kit.records.farm import KEY, OTHER_KEY, SPR, V3, ZEN3, Farm, measured
from tests.kit.records.runs import PATIENCE_S, eventually, statements
from tuner.records.db import listening
from tuner.records.db.database import reading
from tuner.records.farm.model_farm import DeviceEventKind
from tuner.records.lookup.changes import COUNTED
from tuner.records.lookup.remembered import Answers, RememberedLookups
from tuner.records.model import BestLookup, NewDevice, NewWorkload
from tuner.records.store import RecordStore


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes no server for dead."""
    monkeypatch.setattr(listening, "ALIVE_S", PATIENCE_S)


@pytest.fixture
def other(farm: Farm) -> Iterator[RecordStore]:
    """The same store as another process has it open."""
    with RecordStore.open(farm.store._engine.url.render_as_string(hide_password=False)) as opened:
        yield opened


def cost(store: RecordStore, device_class: str = ZEN3) -> float | None:
    config = store.best.look_up(KEY, V3, device_class).config
    return None if config is None else config.cost


def remembering(store: RecordStore) -> None:
    """Have it known to the store how things are, and that the database would say if that changed."""
    store.best.watch().mark()
    assert store.best.watch().glance() is not None


def test_a_store_asked_often_remembers(farm: Farm) -> None:
    farm.trial(farm.run(), "d", 1.0, 1.0)
    with statements(farm.store) as asked:
        assert [cost(farm.store) for _ in range(20)] == [1.0] * 20
        assert len(asked) >= 20

        def remembers() -> bool:
            before = len(asked)
            return cost(farm.store) == 1.0 and len(asked) == before

        eventually(remembers)
        del asked[:]
        assert [cost(farm.store) for _ in range(50)] == [1.0] * 50
        assert asked == []


def test_what_changes_is_seen_at_once_by_whoever_changed_it(farm: Farm) -> None:
    store, run = farm.store, farm.run()
    remembering(store)
    assert cost(store) is None
    for number in range(1, 9):
        farm.trial(run, f"d{number}", 1.0 / number, 1.0 / number)
        assert [cost(store), cost(store)] == [1.0 / number] * 2
    assert store.best.look_up(KEY, V3, SPR).match == "miss"
    store.devices.declare_compatible(SPR, [ZEN3])
    assert store.best.look_up(KEY, V3, SPR).match == "compatible"
    store.devices.record_event(farm.zen3, DeviceEventKind.CHECK_FAILED)
    assert (cost(store), cost(store, SPR)) == (None, None)


def test_what_another_process_changes_is_seen(farm: Farm, other: RecordStore) -> None:
    run = farm.run()
    remembering(farm.store)
    for number in range(1, 9):
        other.trials.add(measured(run, f"d{number}", 1.0 / number, 1.0 / number, device=farm.zen3))
        eventually(lambda number=number: cost(farm.store) == 1.0 / number)  # type: ignore[misc]
        assert cost(farm.store) == 1.0 / number


def test_an_answer_that_a_change_overtook_is_not_kept(farm: Farm, other: RecordStore) -> None:
    """A writer commits after the answer was read, and the word of it comes in, before it would be remembered."""
    run, watch = farm.run(), farm.store.best.watch()
    farm.trial(run, "d", 1.0, 1.0)
    lookups = RememberedLookups(farm.store._engine)
    lookups._watch = watch
    place = V3, ZEN3, None

    def overtaken(keys: Collection[str]) -> dict[str, BestLookup]:
        found = farm.store.best._ask(keys, *place)
        before = watch.glance()
        other.trials.add(measured(run, "e", 0.5, 0.5, device=farm.zen3))
        eventually(lambda: watch.glance() not in (None, before))
        return found

    remembering(farm.store)
    [old] = lookups.best_of([KEY], place, overtaken).values()
    assert old.config is not None
    assert old.config.cost == 1.0
    [new] = lookups.best_of([KEY], place, lambda keys: farm.store.best._ask(keys, *place)).values()
    assert new.config is not None
    assert new.config.cost == 0.5


def test_several_are_of_one_state_of_the_store(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    """A remembered answer for some of them is not joined with a later answer for others."""
    farm.trial(farm.run(), "d", 1.0, 1.0)
    remembering(farm.store)
    lookups: list[list[str]] = []
    look_up = farm.store.best._ask

    def noted(keys: Collection[str], *place: Any) -> dict[str, BestLookup]:
        lookups.append(sorted(keys))
        return look_up(keys, *place)

    monkeypatch.setattr(farm.store.best, "_ask", noted)
    farm.store.best.look_up_all([KEY], V3, ZEN3)
    farm.store.best.look_up_all([KEY, OTHER_KEY], V3, ZEN3)
    found = farm.store.best.look_up_all([OTHER_KEY, KEY], V3, ZEN3)
    assert {key: answer.match for key, answer in found.items()} == {KEY: "exact", OTHER_KEY: "miss"}
    assert lookups == [[KEY], sorted([KEY, OTHER_KEY])]


def test_marks_differ_after_what_changes_an_answer_and_not_after_other_things(farm: Farm) -> None:
    store, run = farm.store, farm.run()
    seen = [store.best.watch().mark()]

    def changed() -> bool:
        seen.append(store.best.watch().mark())
        return seen[-1] != seen[-2]

    farm.trial(run, "d", 1.0, 1.0)
    assert changed()
    farm.trial(run, "slower", 2.0, 2.0)
    store.devices.upsert(NewDevice(name="zen", key="cpu", device_class=ZEN3, fingerprint={"cpu": ZEN3}))
    store.runs.newest()
    assert not changed()
    farm.trial(run, "e", 0.5, 0.5)
    assert changed()
    store.workloads.upsert(NewWorkload(key=OTHER_KEY, name="other"))
    assert changed()
    store.workloads.upsert(NewWorkload(key=OTHER_KEY, name="other"))
    assert not changed()
    store.devices.declare_compatible(SPR, [ZEN3])
    assert changed()
    store.devices.record_event(farm.zen3, DeviceEventKind.QUARANTINED)
    assert changed()
    assert len(set(seen)) == 6


def test_no_two_marks_are_equal_while_the_database_is_away(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("gone")

    monkeypatch.setattr(store.best.watch(), "_ask", fail)
    assert store.best.watch().mark() != store.best.watch().mark()


def test_the_tables_said_to_be_counted_are(store: RecordStore) -> None:
    sqlite = "SELECT DISTINCT tbl_name FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'count%'"
    postgres = "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgfoid = 'count_serving'::regproc"
    with reading(store._engine) as connection:
        query = sqlite if connection.dialect.name == "sqlite" else postgres
        assert set(connection.scalars(text(query))) == set(COUNTED)


def test_answers_make_room_for_newer_ones() -> None:
    answers = Answers[str](most_bytes=10_000)
    for number in range(10):
        assert answers.get(number, "mark") is None
        answers.keep(number, "mark", "an answer", 1000)
    assert [number for number in range(10) if answers.get(number, "mark")] == [7, 8, 9]
    answers.keep("late", "an earlier mark", "an answer", 1000)
    assert answers.get("late", "mark") is None
    assert answers.get(9, "another mark") is None
