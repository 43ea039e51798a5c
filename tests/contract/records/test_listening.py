"""Hearing of changes from a PostgreSQL server: while that cannot be relied on, lookups ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from tests.kit.records.farm import KEY, V3, ZEN3, Farm, measured
from tests.kit.records.postgres import postgres_database
from tests.kit.records.runs import PATIENCE_S, eventually, statements
from tuner.records.db import listening
from tuner.records.db.database import asking
from tuner.records.db.listening import PostgresWatch
from tuner.records.model import NewWorkload, Run
from tuner.records.store import RecordStore


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes no server for dead."""
    monkeypatch.setattr(listening, "ALIVE_S", PATIENCE_S)


@pytest.fixture
def address(postgres: str, postgres_template: str) -> Iterator[str]:
    with postgres_database(postgres, postgres_template) as made:
        yield made


@pytest.fixture
def farm(address: str) -> Iterator[Farm]:
    with RecordStore.open(address) as store:
        yield Farm(store)


@pytest.fixture
def other(address: str) -> Iterator[RecordStore]:
    with RecordStore.open(address) as store:
        yield store


@pytest.fixture
def run(farm: Farm) -> Run:
    """A run with a best config of a second, on which lookups rest that are remembered."""
    started = farm.run()
    farm.trial(started, "d", 1.0, 1.0)
    farm.store.best.watch().mark()
    with statements(farm.store) as asked:
        assert (cost(farm), cost(farm)) == (1.0, 1.0)
    assert len(asked) == 1
    return started


def cost(farm: Farm) -> float | None:
    config = farm.store.best.look_up(KEY, V3, ZEN3).config
    return None if config is None else config.cost


def listener(farm: Farm) -> int:
    """The process that serves the connection that listens."""
    watch = farm.store.best.watch()
    assert isinstance(watch, PostgresWatch)
    assert watch._listener is not None
    return int(watch._listener._server.backend_pid)


def end_listener(farm: Farm, other: RecordStore) -> None:
    gone = listener(farm)
    with asking(other._engine) as connection:
        assert connection.scalar(text(f"SELECT pg_terminate_backend({gone}, 60000)"))


def faster(farm: Farm, other: RecordStore, run: Run, cost_s: float) -> None:
    other.trials.add(measured(run, f"of {cost_s}", cost_s, cost_s, device=farm.zen3))


def test_nothing_old_is_told_once_the_connection_was_lost(farm: Farm, other: RecordStore, run: Run) -> None:
    end_listener(farm, other)
    faster(farm, other, run, 0.5)
    assert cost(farm) == 0.5
    assert cost(farm) == 0.5


def test_lookups_are_remembered_again_over_another_connection(farm: Farm, other: RecordStore, run: Run) -> None:
    first = listener(farm)
    end_listener(farm, other)

    def remembers() -> bool:
        with statements(farm.store) as asked:
            assert (cost(farm), cost(farm)) == (1.0, 1.0)
        return asked == []

    eventually(remembers)
    assert listener(farm) != first
    faster(farm, other, run, 0.5)
    eventually(lambda: cost(farm) == 0.5)


def test_no_answer_outlives_the_connection_it_was_kept_under(farm: Farm, other: RecordStore, run: Run) -> None:
    """Not even when the count is the same on both: a server that took another's place may have lost some changes and
    counted others."""
    watch = farm.store.best.watch()
    before = watch.mark()
    assert watch.glance() == before
    end_listener(farm, other)
    eventually(lambda: watch.glance() is None)
    after = watch.mark()
    assert after != before
    assert watch.glance() == after


def test_a_silent_server_is_not_believed(farm: Farm, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "ALIVE_S", -1.0)
    assert farm.store.best.watch().glance() is None
    with statements(farm.store) as asked:
        assert (cost(farm), cost(farm)) == (1.0, 1.0)
    assert len(asked) == 2


def test_a_server_that_is_asked_now_and_then_goes_on_being_believed(
    farm: Farm, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "_ASK_EVERY_S", 0.0)
    watch = farm.store.best.watch()
    assert isinstance(watch, PostgresWatch)
    assert watch._listener is not None
    heard = watch._listener._heard

    def heard_again() -> bool:
        watch.glance()
        assert watch._listener is not None
        return watch._listener._heard > heard

    eventually(heard_again)


def test_a_pooler_in_between_is_asked_each_time(
    farm: Farm, other: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through one, each statement may be another process's, which is not the one that was connected to."""
    monkeypatch.setattr(listening, "_QUESTION", b"SELECT tableoid, version, 1 FROM serving")
    started, watch = farm.run(), farm.store.best.watch()
    farm.trial(started, "d", 1.0, 1.0)
    before = watch.mark()
    assert watch.mark() == before
    assert watch.glance() is None
    for number in range(2, 5):
        faster(farm, other, started, 1.0 / number)
        assert cost(farm) == 1.0 / number
    assert watch.mark() != before
    assert watch.glance() is None


def test_a_server_that_goes_away_is_not_answered_for(farm: Farm, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question fails, as it does on a server that changed its mind about the schema."""
    monkeypatch.setattr(listening, "_QUESTION", b"SELECT 1 / 0")
    watch = farm.store.best.watch()
    assert watch.mark() != watch.mark()
    assert watch.glance() is None
    assert cost(farm) == 1.0


def test_the_count_of_another_schema_is_not_taken_for_this_ones(farm: Farm, other: RecordStore, run: Run) -> None:
    watch = farm.store.best.watch()
    before = watch.mark()
    with asking(other._engine) as connection:
        connection.execute(text("SELECT pg_notify('tunefarm_serving', '1 99999')"))
    other.workloads.upsert(NewWorkload(key="f" * 64, name="another"))  # comes in after that
    eventually(lambda: watch.glance() not in (None, before))
    assert watch._listener is not None  # type: ignore[attr-defined]
    assert watch._listener.version < 99999  # type: ignore[attr-defined]


def test_what_is_undone_is_not_told(farm: Farm, other: RecordStore, run: Run) -> None:
    watch = farm.store.best.watch()
    before = watch.mark()
    with other._engine.connect() as connection:
        connection.execute(text("UPDATE workloads SET name = 'x'"))
        connection.rollback()
    assert watch.mark() == before
    assert watch.glance() == before
