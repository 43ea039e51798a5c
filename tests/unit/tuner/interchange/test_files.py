"""Files of records: what is wrong with one is found before any of it is stored."""

from __future__ import annotations

import gzip
import json
import shutil

import pytest

from compiler.schedule.core.trace import Trace
from rpc_server.wire.trial_messages import FailureKind
from tests.kit.cli.run import run_cli
from tests.kit.records.runs import Lab
from tests.kit.tuner.family_records import made_up, stored
from tuner.interchange import jsonl, t4
from tuner.interchange.decisions import parameters, parameters_of
from tuner.interchange.transfer import read
from tuner.kernels.space import config_json
from tuner.records.errors import InvalidRecord
from tuner.records.store import RecordStore


@pytest.fixture
def lab(sqlite_template, tmp_path):
    with RecordStore.open(shutil.copyfile(sqlite_template, tmp_path / "lab.db")) as store:
        lab = Lab(store)
        lab.whole_run()
        yield lab


@pytest.fixture
def lines(lab, tmp_path):
    path = tmp_path / "lab.jsonl"
    with path.open("wb") as out:
        jsonl.dump(read(lab.store), out)
    return path.read_bytes().splitlines(keepends=True)


def load(tmp_path, lines):
    path = tmp_path / "given.jsonl"
    path.write_bytes(b"".join(lines))
    return list(jsonl.load(path))


def edited(line, **changes):
    return json.dumps({**json.loads(line), **changes}).encode() + b"\n"


def test_what_was_written_is_read(lab, lines, tmp_path):
    assert load(tmp_path, lines) == list(read(lab.store))


def test_a_family_is_checked(lab, tmp_path):
    lab.store.families.add(stored(made_up("dense:M,8,16", ["M=1,4"])))
    path = tmp_path / "families.jsonl"
    with path.open("wb") as out:
        jsonl.dump(read(lab.store), out)
    assert list(jsonl.load(path)) == list(read(lab.store))
    *before, line, last = path.read_bytes().splitlines(keepends=True)
    record = json.loads(line)["record"]
    for wrong, message in (
        ({"record": {}}, "no record of a family"),
        ({"record": {**record, "traces": [None, None]}}, "one of them was changed"),
        ({"target": "warp-drive"}, "warp-drive"),
    ):
        with pytest.raises(InvalidRecord, match=message):
            load(tmp_path, [*before, edited(line, **wrong), last])


@pytest.mark.parametrize("cut", range(13))
def test_a_file_cut_at_any_line_is_refused(lines, tmp_path, cut):
    with pytest.raises(InvalidRecord, match=r"cut short|promised"):
        load(tmp_path, lines[:cut])


def test_a_file_cut_within_a_line_is_refused(lines, tmp_path):
    with pytest.raises(InvalidRecord, match="line 7: not a record"):
        load(tmp_path, [*lines[:6], lines[6][:40]])


FIRST_TRIAL = 5  # after the header, the workload, the run, the device and the untuned function


@pytest.mark.parametrize(
    ("line", "changes", "message"),
    [
        (0, {"version": 2}, "version 2"),
        (0, {"format": "other"}, "'other'"),
        (1, {"colour": "red"}, "unknown field `colour`"),
        (2, {"state": "happy"}, "'happy' is no state"),
        (2, {"tasks": []}, "at least one task"),
        (2, {"tasks": [{"workload": "nowhere", "target": "llvm", "budget": 1}]}, "no workload nowhere"),
        (2, {"tasks": [{"workload": "nowhere", "target": "llvm", "budget": 1.5}]}, "Expected `int`"),
        (FIRST_TRIAL, {"sequence": 7}, "trial 7 follows trial 1"),
        (FIRST_TRIAL, {"task": 1}, "no task 1"),
        (FIRST_TRIAL, {"device": "elsewhere"}, "no device 'elsewhere'"),
        (FIRST_TRIAL, {"purpose": "fun"}, "'fun' is not a valid"),
        (FIRST_TRIAL, {"failure": "bored"}, "'bored' is not a valid"),
        (FIRST_TRIAL, {"failure": "crash"}, "a failed trial has no samples"),
        (FIRST_TRIAL, {"samples": [-1.0]}, "positive seconds"),
        (FIRST_TRIAL, {"samples": ["quick"]}, "Expected `float`"),
        (FIRST_TRIAL, {"digest": "0" * 32}, "digest is not 0000"),
        (-1, {"trials": 3}, "3 trials are promised"),
    ],
)
def test_a_wrong_line_is_named(lines, tmp_path, line, changes, message):
    number = line % len(lines) + 1
    given = list(lines)
    given[line] = edited(given[line], **changes)
    with pytest.raises(InvalidRecord, match=f"line {number}: .*{message}"):
        load(tmp_path, given)


def test_a_wrong_target_is_named(lines, tmp_path):
    task = {**json.loads(lines[2])["tasks"][0], "target": "lllvm"}
    with pytest.raises(InvalidRecord, match=r"line 3: .*lllvm"):
        load(tmp_path, [*lines[:2], edited(lines[2], tasks=[task]), *lines[3:]])


def test_a_header_is_the_first_line_and_only_that(lines, tmp_path):
    for given in (lines[1:], [lines[0], *lines]):
        with pytest.raises(InvalidRecord, match="first line"):
            load(tmp_path, given)


def test_more_after_the_end_is_refused(lines, tmp_path):
    with pytest.raises(InvalidRecord, match="more after the last line"):
        load(tmp_path, [*lines, lines[1]])


def test_gzip_is_unpacked_and_damage_is_found(lines, tmp_path):
    packed = gzip.compress(b"".join(lines))
    path = tmp_path / "lab.jsonl.gz"
    path.write_bytes(packed)
    assert len(list(jsonl.load(path))) == len(lines)
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(InvalidRecord, match="gzip"):
        list(jsonl.load(path))


# ------------------------------------------------------------------------------- other formats


def test_decisions_are_named_by_what_they_decide(lab):
    named = parameters(Trace.from_json(lab.traces[0]))
    assert list(named) == ["T_matmul.0.factor1", "T_matmul.1.factor2", "T_matmul.1.factor1", "T_matmul.2.factor1"]
    assert all(isinstance(value, int) for value in named.values())
    other = parameters(Trace.from_json(lab.traces[1]))
    assert list(other) == list(named)
    assert other != named


def test_t4_says_how_every_trial_ended(lab, tmp_path):
    run = lab.store.runs.newest()[0]
    path = tmp_path / "t4.json"
    with path.open("wb") as out:
        assert t4.dump(lab.store.trials.all(run.id), out) == 8
    file = json.loads(path.read_bytes())
    assert file["schema_version"] == "1.0.0"
    by_state = [result["invalidity"] for result in file["results"]]
    assert by_state == ["correct"] * 4 + ["runtime"] + ["correct"] * 3
    first = file["results"][0]
    assert first["times"]["runtimes"] == [2000.0, 2500.0, 1750.0]
    assert first["correctness"] == 1
    assert {"name": "time", "value": 2000.0, "unit": "ms"} in first["measurements"]
    assert first["objectives"] == ["time"]
    assert first["configuration"] == parameters(Trace.from_json(lab.traces[1]))


def test_configs_of_kernels_and_templates_are_parameters_as_they_are():
    assert parameters_of(config_json({"TILE": 8, "KIND": "row"})) == {"TILE": 8, "KIND": "row"}
    template = {"autotvm": {"template": "t", "args": [], "config": {"entity": [["x", "ot", 4], ["y", "sp", [2, 8]]]}}}
    assert parameters_of(json.dumps(template)) == {"x": 4, "y": "[2, 8]"}


def test_t4_has_a_word_for_every_failure():
    words = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
    assert {t4.invalidity(kind) for kind in (None, *FailureKind)} == words


# -------------------------------------------------------------------------------- command line


def test_export_import_and_merge_by_command(lab, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_cli(capfd, "records", "export", "--db", "lab.db", "all.jsonl.gz")
    assert done.code == 0
    assert "9 trials written" in done.err
    assert not (tmp_path / "all.jsonl.gz.part").exists()
    assert "1 run and 9 trials" in run_cli(capfd, "records", "import", "--check", "all.jsonl.gz").out
    assert not (tmp_path / "tunefarm.db").exists()
    first = run_cli(capfd, "records", "import", "--db", "new.db", "all.jsonl.gz")
    assert first.out == "1 new run, 9 new trials\n"
    again = run_cli(capfd, "records", "merge", "lab.db", "--db", "new.db", "--json")
    assert json.loads(again.out)["known_trials"] == 9
    stats = json.loads(run_cli(capfd, "records", "stats", "--db", "new.db", "--json").out)
    assert (stats["runs"], stats["trials"]) == (1, 8)
    assert "1 crash" in run_cli(capfd, "records", "stats", "--db", "new.db").out


def test_an_export_does_not_overwrite(lab, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept.jsonl").write_text("mine")
    refused = run_cli(capfd, "records", "export", "--db", "lab.db", "kept.jsonl")
    assert refused.code == 1
    assert "--force" in refused.err
    assert (tmp_path / "kept.jsonl").read_text() == "mine"
    assert run_cli(capfd, "records", "export", "--db", "lab.db", "kept.jsonl", "--force").code == 0


def test_a_bad_file_stores_nothing(lines, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.jsonl").write_bytes(b"".join(lines[:-1]))
    refused = run_cli(capfd, "records", "import", "--db", "new.db", "bad.jsonl")
    assert refused.code == 1
    assert "cut short" in refused.err
    assert not (tmp_path / "new.db").exists()


def test_merging_a_store_into_itself_is_refused(lab, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = run_cli(capfd, "records", "merge", "lab.db", "--db", "sqlite:///lab.db")
    assert refused.code == 1
    assert "store to merge into" in refused.err


def test_prune_asks_shows_and_keeps_the_best(lab, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from datetime import timedelta

    from tests.kit.records.runs import BEGAN

    lab.whole_run("slow", BEGAN + timedelta(days=1), scale=4.0)
    assert run_cli(capfd, "records", "prune", "--db", "lab.db").code == 2
    dry = run_cli(capfd, "records", "prune", "--db", "lab.db", "--older-than", "30d", "--dry-run")
    assert "1 run with 8 search trials to remove" in dry.out
    assert "run 1 holds a best config" in dry.out
    assert len(lab.store.runs.newest()) == 2
    done = run_cli(capfd, "records", "prune", "--db", "lab.db", "--older-than", "30d", "--yes", "--compact")
    assert done.code == 0
    assert "removed 1 run and 9 trials" in done.out
    assert [run.name for run in lab.store.runs.newest()] == ["first"]
