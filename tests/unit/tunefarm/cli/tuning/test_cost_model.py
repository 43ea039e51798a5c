"""`tunefarm cost-model`, from a store's trials to a model that another store uses."""

from __future__ import annotations

import json

import pytest

from tests.kit.cli.run import run_cli
from tests.kit.tuner.models import FAMILY, fill
from tuner.model.dataset import from_store
from tuner.model.library import pack
from tuner.model.training import TrainingOptions, train
from tuner.records.store import RecordStore


@pytest.fixture(scope="module", autouse=True)
def lightgbm():
    """Not when the tests are collected: that takes a second."""
    pytest.importorskip("lightgbm", exc_type=ImportError)


SPECS = ["matmul:32,32,32", "matmul:64,48,32", "matmul:16,64,64"]


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "records.db"
    with RecordStore.open(path, create=True) as store:
        fill(store, SPECS)
        data = from_store(store, FAMILY)
        store.cost_models.add(pack(FAMILY, data.groups, train(data.groups, TrainingOptions(trees=10))))
    return str(path)


@pytest.fixture
def output(capfd):
    def run(*words: str) -> str:
        done = run_cli(capfd, "cost-model", *words)
        assert done.code == 0, done.text
        return done.out

    return run


def test_training_prints_the_accuracy_on_held_out_workloads(db, output):
    text = output("train", "--db", db, "--trees", "10")
    assert f"of {FAMILY}: learnt from" in text
    assert "held-out workload" in text
    for spec in SPECS:
        assert spec in text


def test_models_are_listed_with_the_shipped_ones(db, output):
    found = json.loads(output("list", "--db", db, "--json"))
    assert found[0]["target_family"] == FAMILY
    assert found[0]["rank_accuracy"]["spearman"] > 0
    assert found[-1]["id"] is None
    assert "shipped" in output("list", "--db", db)


def test_a_model_moves_to_another_store(db, tmp_path, output, capfd):
    file, other = str(tmp_path / "model.json.gz"), str(tmp_path / "other.db")
    output("export", "1", file, "--db", db)
    assert run_cli(capfd, "cost-model", "export", "1", file, "--db", db).code == 1  # it exists
    output("export", "1", file, "--db", db, "--force")
    output("import", file, "--db", other)
    there = json.loads(output("show", "1", "--db", other, "--json"))
    here = json.loads(output("show", "1", "--db", db, "--json"))
    assert {**there, "id": None, "version": None} == {**here, "id": None, "version": None}
    assert "held-out workload" in output("show", "1", "--db", other)


def test_a_shipped_model_is_shown_by_its_family(db, output):
    assert "learnt from" in output("show", FAMILY, "--db", db)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["show", "99"], "no model 99"),
        (["show", "llvm-none"], "no model is called"),
        (["train", "--family", "llvm-none"], "no two measured"),
    ],
)
def test_what_is_not_there_is_said(db, words, says, capfd):
    done = run_cli(capfd, "cost-model", *words, "--db", db)
    assert done.code == 1
    assert says in done.text


def test_a_file_that_is_no_model_is_refused(db, tmp_path, capfd):
    file = tmp_path / "evil.json.gz"
    file.write_bytes(b"import os")
    done = run_cli(capfd, "cost-model", "import", str(file), "--db", db)
    assert done.code == 1
    assert "not a file of a model" in done.text
