"""`tunefarm token`, `release` and `db backup` as a person types them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from compiler.target.target import Target
from tests.kit.cli.run import run_cli
from tests.kit.records.farm import TOOLCHAIN, V3, Farm
from tests.kit.records.runs import TARGET, Lab
from tuner.records.model import NewRun, NewRunTask
from tuner.records.model_store.facts import NewModelVersion
from tuner.records.store import RecordStore


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a finished run, which the setting names."""
    path = str(tmp_path / "records.db")
    with RecordStore.open(path, create=True) as store:
        Lab(store).whole_run()
    monkeypatch.setenv("TUNEFARM_DB", path)
    return path


class Typed:
    """Runs a command line and gives what it printed."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *words: str, code: int = 0) -> str:
        outcome = run_cli(self._capfd, *words)
        assert outcome.code == code, outcome
        return outcome.out + outcome.err


@pytest.fixture
def typed(capfd: pytest.CaptureFixture[str]) -> Typed:
    return Typed(capfd)


def test_tokens(database: str, typed: Typed) -> None:
    secret = typed("token", "new", "ci", "--role", "tune", "--expires", "2d").strip()
    with RecordStore.open(database) as store:
        found = store.tokens.find(secret)
        assert found is not None
        assert (found.name, str(found.role)) == ("ci", "tune")
    typed("token", "revoke", "ci")
    [listed] = json.loads(typed("token", "list", "--json"))
    assert (listed["name"], listed["state"]) == ("ci", "revoked")
    assert secret not in typed("token", "list")
    assert "already" in typed("token", "new", "ci", code=1)


@pytest.mark.parametrize(("baseline", "named"), [("OpenBLAS", "OpenBLAS"), ("", "the function as written")])
def test_the_best_config_is_compared_with_the_baseline(
    tmp_path: Path, typed: Typed, baseline: str, named: str
) -> None:
    db = str(tmp_path / "own.db")
    with RecordStore.open(db, create=True) as store:
        farm = Farm(store)
        task = NewRunTask(workload_id=farm.workload.id, target_id=farm.v3.id, budget=1, baseline=baseline)
        run = store.runs.start(NewRun(tasks=(task,), toolchain=TOOLCHAIN))
        farm.baseline(run, 3e-3)
        farm.trial(run, "best", 2e-3, 2e-3, 2e-3)
    words = ("best", "matmul", "--target", V3, "--db", db)
    assert f"1.50 times as fast as {named} in its run, 3.00 ms" in typed(*words)
    told = json.loads(typed(*words, "--json"))
    assert (told["target"], told["config"]["target"]) == (str(Target(V3)), V3)
    assert (told["config"]["baseline"], told["config"]["untuned_s"]) == (baseline or None, 3e-3)


def test_a_miss_names_the_nearest_tuned_workloads_in_units_of_people(database: str, typed: Typed) -> None:
    with RecordStore.open(database) as store:
        [config] = store.best.page()
    operator, sizes, dtype = config.workload_name.split(":")
    near = f"{operator}:{','.join([*sizes.split(',')[:-1], '12'])}:{dtype}"
    text = typed("best", near, "--target", TARGET, code=3)
    assert re.search(
        rf"^  {re.escape(config.workload_name)}  [\d.]+ [nµm]?s a call, [\d.]+ GFLOP/s$", text, re.MULTILINE
    )
    assert text.endswith(f"tune it: tunefarm tune {near} --target '{TARGET}'\n")
    assert re.search(r"median [\d.]+ [nµm]?s of", typed("best", config.workload_name, "--target", TARGET))


def test_a_release_from_making_to_another_store(database: str, tmp_path: Path, typed: Typed) -> None:
    assert "1 config," in typed("release", "create", "1.0", "--note", "first")
    assert "matmul" in typed("release", "show", "1.0")
    assert "approved by" in typed("release", "approve", "1.0")
    typed("release", "create", "1.1")
    assert typed("release", "diff", "1.0", "1.1") == "1 the same\n"
    assert json.loads(typed("release", "diff", "1.0", "1.1", "--json"))["same"] == 1
    assert [r["name"] for r in json.loads(typed("release", "list", "--json"))] == ["1.1", "1.0"]
    file, other = tmp_path / "r.json", str(tmp_path / "other.db")
    typed("release", "export", "1.0", str(file))
    typed("db", "upgrade", "--db", other)
    assert "not approved" in typed("release", "import", str(file), "--db", other)
    file.write_text(file.read_text().replace('"note": "first"', '"note": "x"').replace('"cost":', '"cost": 1, "c":'))
    assert "release" in typed("release", "import", str(file), "--db", other, code=1)


def test_a_backup_is_a_store(database: str, tmp_path: Path, typed: Typed) -> None:
    copy = tmp_path / "copy.db"
    typed("db", "backup", str(copy))
    with RecordStore.open(copy) as store, RecordStore.open(database) as original:
        assert store.runs.newest() == original.runs.newest()
    assert "exists already" in typed("db", "backup", str(copy), code=1)
    assert "no database" in typed("db", "backup", str(tmp_path / "b.db"), "--db", str(tmp_path / "none.db"), code=1)
    assert sorted(p.name for p in tmp_path.glob("b.db*")) == []


def test_a_store_is_moved_and_brought_back(database: str, tmp_path: Path, typed: Typed) -> None:
    moved, again = tmp_path / "moved.db", tmp_path / "again.db"
    said = typed("db", "move", database, str(moved))
    assert f"copied to {moved}: " in said
    assert "SRC is as it was" in said
    typed("db", "backup", str(tmp_path / "copy.db"), "--db", str(moved))
    rows = json.loads(typed("db", "restore", str(tmp_path / "copy.db"), "--db", str(again), "--json"))["rows"]
    assert rows["runs"] == 1
    with RecordStore.open(again) as store, RecordStore.open(database) as original:
        assert store.runs.newest() == original.runs.newest()
    assert "records merge" in typed("db", "move", database, str(moved), code=1)
    assert "there is no file" in typed("db", "restore", str(tmp_path / "no.db"), "--db", str(tmp_path / "n"), code=1)


def test_a_merge_says_what_it_leaves_behind(database: str, typed: Typed, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    assert "not merged" not in typed("records", "merge", database, "--db", other)
    typed("release", "create", "r1")
    typed("token", "new", "build")
    typed("quota", "set", "ann", "--runs", "2")
    said = typed("records", "merge", database, "--db", other)
    assert f"not merged: releases, tokens and quotas of {database}." in said


def test_a_merge_leaves_files_of_models_behind(database: str, typed: Typed, tmp_path: Path) -> None:
    file, other = b"a model", str(tmp_path / "other.db")
    digest = hashlib.sha256(file).hexdigest()
    new = NewModelVersion(
        name="net", digest=digest, file_digest=digest, form="onnx", kind="llvm", file_bytes=len(file), tasks=()
    )
    with RecordStore.open(database) as store:
        version = store.models.register(new)
        known = typed("records", "merge", database, "--db", other)
        store.models.add_part(version.id, 0, file)
    assert "1 version of models" in known
    assert "not merged" not in known  # what is known of a model is merged; its file is not
    assert "not merged: files of models of" in typed("records", "merge", database, "--db", other)


def test_a_token_is_made_on_a_fresh_farm(typed: Typed, tmp_path: Path) -> None:
    fresh = str(tmp_path / "fresh.db")
    assert typed("token", "new", "ci", "--db", fresh).strip()
    assert "ci" in typed("token", "list", "--db", fresh)
