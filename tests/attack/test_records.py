"""Files from strangers (records, models of code) and answers of strangers (a Dask scheduler): none leads to code."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import resource
import tarfile

import pytest
from sqlalchemy import text

from compiler.errors import ArtifactError
from compiler.runtime.load import load_module
from tests.kit.records.runs import Lab
from tunefarm.cli.tuning.tune_run import _resumed_options
from tuner.build.choose import check_builders
from tuner.build.dask_builder import DaskBuilder, _decoded
from tuner.engine.options import RunOptions
from tuner.errors import TuningError
from tuner.interchange import jsonl
from tuner.interchange.transfer import copy, read, write
from tuner.records.errors import InvalidRecord
from tuner.records.model import IMPORTED, RunState
from tuner.records.store import RecordStore

EVIL = RunOptions(builders="dask://attacker.example:8786", workloads=({"file": "/tmp/evil.py", "name": "k"},)).to_json()
ASKED = {"builders": None, "trials": None}


@pytest.fixture
def lab(tmp_path):
    with RecordStore.open(tmp_path / "theirs.db", create=True) as store:
        yield Lab(store)


@pytest.fixture
def store(tmp_path):
    with RecordStore.open(tmp_path / "mine.db", create=True) as store:
        yield store


def evil_run(lab):
    run = lab.whole_run()
    with lab.store._engine.begin() as connection:
        connection.execute(text("UPDATE runs SET options = :options"), {"options": json.dumps(EVIL)})
    return run


def test_a_run_from_a_file_is_not_resumed(lab, store, tmp_path):
    """Its options name a cluster to send code to and a Python file to run."""
    evil_run(lab)
    with (tmp_path / "records.jsonl").open("wb") as out:
        jsonl.dump(read(lab.store), out)
    write(store, jsonl.load(tmp_path / "records.jsonl"))
    (run,) = store.runs.newest()
    assert set(run.options) == {IMPORTED}
    with pytest.raises(TuningError, match="came from a file"):
        _resumed_options(store, {**ASKED, "resume": run.id})


def test_what_it_was_run_with_is_handed_on(lab, store, tmp_path):
    run = evil_run(lab)
    write(store, read(lab.store))
    (entry,) = [entry for entry in read(store) if getattr(entry, "options", None)]
    assert entry.options == lab.store.runs.get(run.id).options


def test_a_user_moves_his_own_runs_whole(lab, store):
    run = evil_run(lab)
    copy(lab.store, store)
    assert store.runs.newest()[0].options == lab.store.runs.get(run.id).options


def test_where_code_is_sent_is_not_taken_from_records(lab):
    run = evil_run(lab)
    lab.store.runs.set_state(run.id, RunState.INTERRUPTED)
    with pytest.raises(TuningError, match="built on a cluster"):
        _resumed_options(lab.store, {**ASKED, "resume": run.id})
    assert _resumed_options(lab.store, {**ASKED, "resume": run.id, "builders": "2"}).builders == "2"


@pytest.mark.parametrize("place", ["attacker.example:8786", "192.0.2.1:8786", "127.attacker.example:8786"])
def test_a_scheduler_elsewhere_has_to_prove_itself(place):
    assert check_builders(f"dask+tls://{place}")
    with pytest.raises(TuningError, match="could run code here"):
        DaskBuilder(f"dask://{place}", connect_s=0.1)


def test_an_answer_of_a_worker_is_data():
    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit('run')",))

    for answer in (Evil(), pickle.dumps(Evil()), b"\xc1", {"artifact": b""}):
        with pytest.raises(TuningError):
            _decoded(answer)


def test_records_that_unpack_to_no_end(tmp_path):
    """Lines that are fine each: 1.5 MB of file, more than a gigabyte of records."""
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", 9) as out:
        out.write(b'{"entry":"header","format":"tunefarm.records","version":1}\n')
        line = b"x" * (1 << 20)
        for _ in range(600):
            out.write(line)
    with pytest.raises(InvalidRecord):
        for _ in jsonl.load(path):
            pass
    with jsonl.open_records(path) as file, pytest.raises(InvalidRecord, match="far more than records"):
        all(iter(lambda: file.readline(1 << 20), b""))


def test_a_tar_of_holes_is_not_read(tmp_path):
    """The headers promise a gigabyte of zeros."""
    path = tmp_path / "module.tar"
    member = tarfile.TarInfo("GNUSparseFile.0/module.o")
    sparse_map = b"1\n0\n0\n".ljust(512, b"\0")
    member.size = len(sparse_map)
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "module.o",
        "GNU.sparse.realsize": str(1 << 30),
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(sparse_map))
    assert path.stat().st_size < 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ArtifactError, match="sparse"):
        load_module(str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_what_is_acknowledged_survives_a_power_cut(store):
    """SQLite flushes its log to the disk before a commit returns: 2 is FULL."""
    with store._engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
