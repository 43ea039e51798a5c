"""A copy of a store, made while it is written to, and brought back."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.kit.records.farm import KEY, V3, ZEN3, Farm, measured
from tests.kit.records.postgres import postgres_database, postgres_programs
from tuner.records.db import backup
from tuner.records.db.database import parse_url
from tuner.records.errors import RecordError
from tuner.records.store import RecordStore


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Path:
    """PostgreSQL's own, first on the PATH."""
    found = postgres_programs()
    if found is None:
        pytest.skip("the wheel brings no pg_dump")
    monkeypatch.setenv("PATH", f"{found}:{os.environ['PATH']}")
    return found


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
        assert backup.backup(address, copy) == copy.stat().st_size
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


def test_a_copy_of_postgresql_is_restored_by_pg_restore(
    postgres: str, postgres_template: str, programs: Path, tmp_path: Path
) -> None:
    with postgres_database(postgres, postgres_template) as address:
        written_to_meanwhile(address, tmp_path / "copy.dump")
    with postgres_database(postgres) as empty:
        target = parse_url(empty).set(drivername="postgresql").render_as_string(hide_password=False)
        command = [programs / "pg_restore", "--exit-on-error", f"--dbname={target}", tmp_path / "copy.dump"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        check(empty)


def test_no_program_or_one_too_old_is_refused(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "pg_dump"
    old.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.24'\n")
    old.chmod(0o755)
    for there, said in (([], "is not installed"), ([old], "there is only that of PostgreSQL 9")):
        monkeypatch.setattr(backup, "pg_dumps", lambda there=there: there)
        with pytest.raises(RecordError, match=said) as refused:
            backup.backup(postgres, tmp_path / "copy.dump")
        assert "postgresql-client-" in (refused.value.hint or "")
        assert "apt.postgresql.org" in (refused.value.hint or "")
    assert not list(tmp_path.glob("copy*"))
