"""A copy of a store, made while it is written to, and brought back."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.records.farm import KEY, V3, ZEN3, Farm, measured
from tests.kit.records.postgres import postgres_database
from tests.kit.records.seed import seed
from tuner.records.db import whole_copy
from tuner.records.db.backup import backup, restore
from tuner.records.db.whole_copy import copy_store
from tuner.records.errors import RecordError, StoreMissing, StoreUnavailable
from tuner.records.farm.model_farm import Role
from tuner.records.store import RecordStore


def written_to_meanwhile(address: str, copy: Path) -> None:
    """Copies the store while trials are added, in twos."""
    done = threading.Event()
    begun = threading.Event()

    def write() -> None:
        with RecordStore.open(address) as store:
            farm = Farm(store)
            run = farm.run()
            number = 0
            while not done.is_set():
                pair = [measured(run, f"{number}-{i}", 1.0, device=farm.zen3) for i in range(2)]
                store.trials.add_all(pair)
                begun.set()
                number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert begun.wait(60)
        assert backup(address, copy) == copy.stat().st_size
    finally:
        done.set()
        writer.join()


def check(address: str) -> None:
    with RecordStore.open(address) as store:
        [run] = store.runs.newest()
        trials = list(store.trials.all(run.id))
        assert len(trials) == run.trials > 0
        assert len(trials) % 2 == 0, "half a transaction"
        assert store.best.look_up(KEY, V3, ZEN3).match == "exact"
        before = store.best.watch().mark()
        store.trials.add(measured(run, "after", 0.5, device=1))
        assert store.best.watch().mark() != before, "the copy does not count its changes"


def test_a_copy_of_sqlite_is_a_store(tmp_path: Path) -> None:
    address = str(tmp_path / "records.db")
    RecordStore.open(address, create=True).close()
    written_to_meanwhile(address, tmp_path / "copy.db")
    check(str(tmp_path / "copy.db"))


def test_a_copy_of_postgresql_is_a_store_and_comes_back(postgres: str, postgres_template: str, tmp_path: Path) -> None:
    with postgres_database(postgres, postgres_template) as address:
        written_to_meanwhile(address, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["copy.db"]
    with postgres_database(postgres) as empty:
        restored = restore(tmp_path / "copy.db", empty)
        assert restored.under_way == 1
        check(empty)
        with pytest.raises(RecordError, match="holds records already") as refused:
            restore(tmp_path / "copy.db", empty)
        assert "records merge" in (refused.value.hint or "")
    check(str(tmp_path / "copy.db"))


def test_a_store_moves_whole_between_databases(address: str, tmp_path: Path) -> None:
    """Each table of a store with something in most of them, there and back: the same rows, and new ones go on."""
    begun = str(tmp_path / "begun.db")
    with RecordStore.open(begun, create=True) as store:
        seed(store)
        store.tokens.new("ci", Role.READ, created_by="ann")
    there = copy_store(begun, address)
    back = copy_store(address, tmp_path / "back.db")
    assert there.rows == back.rows
    filled = {name for name, count in there.rows.items() if count}
    assert {"trials", "best_configs", "tokens", "releases", "bench_runs", "device_events", "serving"} <= filled
    assert tables(begun) == tables(str(tmp_path / "back.db"))
    with RecordStore.open(address) as store:
        _, secret = store.tokens.new("later", Role.READ, created_by="ann")  # its number is free
        assert secret
    with pytest.raises(RecordError, match="both the store to copy"):
        copy_store(address, address)


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = str(tmp_path / "begun.db")
    with RecordStore.open(begun, create=True) as store:
        seed(store)

    def fails(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(whole_copy, "_check_copied", fails)
    with pytest.raises(StoreUnavailable, match="disk is full"):
        copy_store(begun, tmp_path / "there.db")
    assert not list(tmp_path.glob("there*"))


def test_what_is_no_backup_is_not_restored(tmp_path: Path) -> None:
    wrong = tmp_path / "dump.db"
    wrong.write_bytes(b"PGDMP" * 1000)
    with pytest.raises(StoreUnavailable, match="is no backup"):
        restore(wrong, tmp_path / "there.db")
    with pytest.raises(StoreMissing, match="there is no file"):
        restore(tmp_path / "none.db", tmp_path / "there.db")
    assert not list(tmp_path.glob("there*"))


def tables(path: str) -> dict[str, list[str]]:
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}"))) for name in names}
