"""Why trials of a run failed, as the summary and `tunefarm runs --failures` say it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rpc_server.wire.trial_messages import FailureKind
from tests.kit.cli.run import run_cli
from tests.kit.records.farm import Farm, failed
from tunefarm.cli.tuning.failures import all_failed
from tuner.records.store import RecordStore

SAID = "kernel_compile: cc -O3\nmine.c: In function 'f':\nmine.c:3:2: error: no such thing\n"


def test_a_run_without_a_success_says_what_was_most_often_in_the_way(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "records.db")
    with RecordStore.open(db, create=True) as store:
        farm = Farm(store)
        run = farm.run()
        farm.baseline(run, 1.0)
        store.trials.add_all([
            failed(run, "a", FailureKind.CRASH, "SIGSEGV at 0x0", farm.zen3),
            failed(run, "b", FailureKind.BUILD, SAID),
            failed(run, "c", FailureKind.BUILD, "another"),
        ])  # fmt: skip
        (line,) = all_failed(store.runs.get(run.id), store.runs.failures(run.id), db)
        name = run.tasks[0].workload.name
        assert line == (
            f"{name}: 3 trials failed and none succeeded, 2 with build, first: mine.c:3:2: error: no such thing; "
            f"see them: tunefarm runs --failures {run.id} --db {db}"
        )
        told = run_cli(capfd, "runs", "--failures", str(run.id), "--db", db).out
        assert told.startswith(f"{name}: 2 build, first trial ")
        assert all(f"  {part}\n" in told for part in (*SAID.splitlines(), "SIGSEGV at 0x0"))
        listed = json.loads(run_cli(capfd, "runs", "--failures", str(run.id), "--db", db, "--json").out)
        assert [(one["kind"], one["count"], one["text"]) for one in listed] == [
            ("build", 2, SAID), ("crash", 1, "SIGSEGV at 0x0"),
        ]  # fmt: skip
        farm.trial(run, "d", 1.0)
        assert all_failed(store.runs.get(run.id), store.runs.failures(run.id), db) == []
        whole = farm.run()
        farm.trial(whole, "e", 1.0)
        assert (
            f"no trial of run {whole.id} failed" in run_cli(capfd, "runs", "--failures", str(whole.id), "--db", db).out
        )
