"""Logs of autotvm: what a template that is known here can be carried out with goes into the store; of the rest it is
said why it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.cli.run import run_cli
from tests.kit.tuner import autotvm_templates
from tuner.interchange.autotvm_records import CarriedConfig, bring, is_log, read
from tuner.interchange.foreign import DEVICE_CLASS, LeftOut
from tuner.records.store import RecordStore

ENTITY = [["tile_y", "sp", [-1, 4]], ["tile_x", "sp", [-1, 16]], ["vectorize", "ot", True]]


def line(**changes: Any) -> str:
    """A record as TVM's tools write it."""
    values = {
        "task": "test/matmul",
        "args": [64, 64, 64, "float32"],
        "target": "llvm -keys=cpu -link-params=0 -mcpu=core-avx2",
        "entity": ENTITY,
        "costs": [0.0011, 0.0012],
        "error": 0,
        **changes,
    }
    row = {
        "input": [values["target"], values["task"], values["args"], {}],
        "config": {"index": 12, "code_hash": None, "entity": values["entity"]},
        "result": [values["costs"], values["error"], 1.5, 1600000000.5],
        "version": 0.2,
        "tvm_version": "0.8.dev0",
    }
    return json.dumps(row)


def log(folder: Path, *lines: str) -> Path:
    path = folder / "autotvm.log"
    path.write_text("# a comment\n" + "\n".join(lines) + "\n")
    return path


def test_a_config_of_a_known_template_goes_into_the_store_once(tmp_path):
    path = log(tmp_path, line(), line(entity=[["tile_y", "sp", [-1, 8]], *ENTITY[1:]]))
    assert is_log(path)
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        first, again = bring(store, path), bring(store, path)
        assert (first.trials, first.known, first.left) == (2, 0, [])
        assert (again.trials, again.known) == (0, 2)
        (run,) = store.runs.newest()
        trials = list(store.trials.all(run.id))
        assert store.best.look_up(run.tasks[0].workload.key, run.tasks[0].target).match == "miss"  # not measured here
    assert run.name == "Apache TVM: test/matmul(64, 64, 64, float32)"
    assert {(t.device_class, t.verified, t.samples) for t in trials} == {(DEVICE_CLASS, False, (0.0011, 0.0012))}
    assert trials[0].finished_at.timestamp() == 1600000000.5
    chosen = json.loads(trials[0].trace)["autotvm"]
    assert (chosen["template"], chosen["args"]) == ("test/matmul", [64, 64, 64, "float32"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"task": "dense_nopack.x86"}, "no template is called 'dense_nopack.x86' (import the module that defines it"),
        ({"costs": [1e9], "error": 4}, "the candidate failed there: runtime_device"),
        ({"costs": [1e9], "error": 42}, "the candidate failed there: error 42"),
        ({"costs": []}, "it has no times"),
        ({"entity": ENTITY[:2]}, "its config lacks vectorize, which the template has here"),
        ({"entity": [*ENTITY, ["unroll", "ot", 4]]}, "its config has unroll, which the template has not here"),
        ({"target": "abacus"}, "the record is of a target that is not known here"),
        ({"args": [64]}, "its template fails with TypeError: matmul() missing 3 required"),
    ],
)
def test_what_does_not_carry_over_says_why(tmp_path, change, reason):
    found = list(read(log(tmp_path, line(), line(**change))))
    assert isinstance(found[0], CarriedConfig)
    assert isinstance(found[1], LeftOut)
    assert found[1].line == 3
    assert reason in found[1].reason


def test_other_files_are_no_logs(tmp_path):
    for text in ("", "{}\n", "not json\n", '["a", "list"]\n'):
        (tmp_path / "file").write_text(text)
        assert not is_log(tmp_path / "file")
    assert not is_log(tmp_path)
    assert not is_log(tmp_path / "none")


def test_import_by_command_with_a_file_of_templates(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = Path(autotvm_templates.__file__).read_text().replace("test/matmul", "mine/matmul")
    Path("mine.py").write_text(mine)
    path = log(tmp_path, line(task="mine/matmul"), line(task="theirs"))
    checked = run_cli(capfd, "records", "import", "--check", "--templates", "mine.py", str(path))
    assert "1 of 2 records carry over" in checked.out
    done = run_cli(capfd, "records", "import", "--db", "new.db", "--templates", "mine.py", str(path))
    assert done.out == "1 new trial of 1 workload, 0 known already\n"
    assert "line 2 kept without times that count here, the template's code_hash, " in done.err
    assert "line 3 left out: no template is called 'theirs'" in done.err
