"""Logs of Apache TVM's MetaSchedule: the schedules in them apply here and keep the meaning; what does not carry over is
said of each record."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from compiler.interp.interpreter import run
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from tests.kit.cli.run import run_cli
from tests.kit.compiler.schedules import workloads as w
from tests.kit.places import TESTS
from tunefarm.cli.records.exchange import spans
from tuner.errors import TuningError
from tuner.faces.common.tvm_database import read_functions
from tuner.faces.common.tvm_graph import ForeignError
from tuner.faces.common.tvm_trace import replay
from tuner.interchange import tvm_records
from tuner.interchange.foreign import DEVICE_CLASS, TIMES, Kept, LeftOut
from tuner.interchange.tvm_records import ConvertedRecord, bring
from tuner.records.store import RecordStore
from tuner.task import TuningTask

LOGS = TESTS / "data" / "metaschedule"
LOG_NAMES = ("matmul", "conv")


def workload_text(name: str = "matmul") -> str:
    line = json.loads((LOGS / name / "database_workload.json").read_text().splitlines()[0])
    return base64.b64decode(line[1])[8:].decode()


@pytest.mark.parametrize("name", LOG_NAMES)
def test_every_schedule_of_the_log_applies_and_keeps_the_meaning(name):
    records = list(tvm_records.read(LOGS / name))
    assert len(records) == 4
    for record in records:
        assert isinstance(record, ConvertedRecord)
        made = apply_trace(record.func, Trace.from_json(record.trace)).func
        wanted = w.outputs(record.func)
        np.testing.assert_allclose(w.outputs(made), wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(w.native_outputs(made), wanted, rtol=1e-4, atol=1e-4)


def test_schedules_of_the_newer_format_apply_and_keep_the_meaning():
    """Each candidate failed where the log was written, so the import leaves all of them out; their traces are as good
    as any."""
    func = read_functions(workload_text("ffi"))["main"]
    wanted = w.outputs(func)
    lines = (LOGS / "ffi" / "database_tuning_record.json").read_text().splitlines()
    assert len(lines) == 4
    for line in lines:
        made = replay(func, json.loads(line)[1][0]).func
        np.testing.assert_allclose(w.outputs(made), wanted, rtol=1e-4, atol=1e-4)
    left = list(tvm_records.read(LOGS / "ffi"))
    assert {each.reason for each in left} == {"the candidate failed there, and the log does not say how"}


def test_a_log_of_the_newer_format_goes_into_the_store(tmp_path):
    folder = tmp_path / "log"
    shutil.copytree(LOGS / "ffi", folder)
    records = folder / "database_tuning_record.json"
    records.write_text(records.read_text().replace("10000000000", "0.0001"))
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        outcome = bring(store, folder)
    assert (outcome.trials, outcome.left) == (4, [])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"ir.PrimType"', '"ir.Strange"', "a node of type ir.Strange"),
        ('"tirx.BufferStore"', '"tirx.AsyncStore"', "a node of type tirx.AsyncStore"),
        ('"float32"', '"float7"', "float7"),
        ('"type": "int"', '"kind": "int"', "a node without a type"),
    ],
)
def test_what_the_newer_format_has_and_is_not_known_is_named(old, new, reason):
    with pytest.raises(ForeignError, match=reason):
        read_functions(workload_text("ffi").replace(old, new))


def test_the_workload_computes_what_it_says():
    func = read_functions(workload_text())["main"]
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((64, 64)).astype("float32") for _ in range(2))
    d = np.empty((64, 64), "float32")
    run(func, a, b, d)
    np.testing.assert_allclose(d, np.maximum(a @ b + 1.0, 0.0), rtol=1e-4, atol=1e-4)


def test_it_goes_into_the_store_once_and_is_never_best(tmp_path):
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        first = bring(store, LOGS / "matmul")
        again = bring(store, LOGS / "matmul" / "database_tuning_record.json")
        assert (first.trials, first.known, first.left) == (4, 0, [])
        assert (again.trials, again.known) == (0, 4)
        (run,) = store.runs.newest()
        assert run.name == "Apache TVM: main"
        trials = list(store.trials.all(run.id))
        assert all(t.device_class == DEVICE_CLASS and not t.verified and t.samples for t in trials)
        assert store.best.look_up(run.tasks[0].workload.key, run.tasks[0].target).match == "miss"


def test_a_function_is_the_one_te_makes():
    """The workload key does not depend on who wrote the function down."""
    import tunefarm as tvm
    from tunefarm import te

    a, b = te.placeholder((64, 64), name="X"), te.placeholder((64, 64), name="Y")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="P")
    d = te.compute((64, 64), lambda i, j: te.max(c[i, j] + 1.0, 0.0))
    ours = TuningTask("ours", te.create_prim_func([a, b, d]), tvm.target.Target("llvm"))
    theirs = TuningTask("theirs", read_functions(workload_text())["main"], tvm.target.Target("llvm"))
    assert ours.key == theirs.key


# ------------------------------------------------------------------------------ what is wrong


def edited(tmp_path: Path, change) -> list[ConvertedRecord | LeftOut]:
    """The records of a log whose first record `change` edits."""
    folder = tmp_path / "log"
    shutil.copytree(LOGS / "matmul", folder)
    path = folder / "database_tuning_record.json"
    lines = path.read_text().splitlines()
    data = json.loads(lines[0])
    changed = change(data)
    lines[0] = changed if isinstance(changed, str) else json.dumps(data)
    path.write_text("\n".join(lines) + "\n")
    return list(tvm_records.read(folder))


def rename_step(name):
    def change(data):
        data[1][0][0][4][0] = name

    return change


def set_at(*path, value):
    def change(data):
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return change


def test_what_of_a_kept_record_did_not_carry_over_is_said(tmp_path):
    first, second, *_ = edited(tmp_path, set_at(1, 2, "mtriple", value="x86_64-pc-linux-gnu"))
    assert isinstance(first, ConvertedRecord)
    assert isinstance(second, ConvertedRecord)
    assert first.kept == Kept(1, (TIMES, "its target's mtriple x86_64-pc-linux-gnu"))
    assert second.kept == Kept(2, (TIMES,))


@pytest.mark.parametrize(
    ("lines", "words"), [([3], "line 3"), ([1, 2, 3, 7], "lines 1-3, 7"), ([2, 4, 5], "lines 2, 4-5")]
)
def test_lines_in_words(lines, words):
    assert spans(lines) == words


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (rename_step("Tensorise"), "step Tensorise of the trace has no counterpart here"),
        (set_at(0, value=7), "no record as MetaSchedule writes it"),
        (set_at(1, 1, value=[1e10]), "the candidate failed there"),
        (set_at(1, 1, value=["fast"]), "the candidate failed there"),
        (set_at(1, 2, "kind", value="cuda"), "of kind 'cuda'"),
        (set_at(1, 0, value="trace"), "a trace is a list"),
        (set_at(1, 0, 0, 4, 1, value=["b99"]), "uses 'b99', which no step before gave"),
        (set_at(1, 0, 1, value=[["x", 1]]), "is no decision"),
        (set_at(1, 0, 0, 0, 2, value=[]), "not as TVM writes it"),
        (lambda data: "{", "not JSON"),
    ],
)
def test_a_record_that_does_not_carry_over_says_why(tmp_path, change, reason):
    first, *rest = edited(tmp_path, change)
    assert isinstance(first, LeftOut)
    assert first.line == 1
    assert reason in first.reason
    assert all(isinstance(record, ConvertedRecord) for record in rest)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: "{", "not JSON"),
        (lambda text: "[]", "no list of nodes"),
        (lambda text: '{"root_index": 5, "nodes": []}', "refers to node 5, which is not there"),
        (lambda text: '{"root": 5, "nodes": []}', "node 5, which is not there"),
        (lambda text: '{"root": 0, "nodes": [{"type_key": ""}]}', "neither a module nor a function"),
        (lambda text: text.replace("tir.Max", "tir.Let"), "a node of type tir.Let, which is not read"),
        (lambda text: text.replace('"kind": "0"', '"kind": "9"'), "not as TVM writes it"),
        (lambda text: text.replace('"iter_type": "0"', '"iter_type": "3"'), "neither spatial nor reduced"),
    ],
)
def test_a_workload_that_can_not_be_read_says_why(change, reason):
    with pytest.raises(ForeignError, match=reason):
        read_functions(change(workload_text()))


def test_nodes_that_refer_to_themselves_are_refused():
    nodes = [{"type_key": ""}, {"type_key": "Array", "data": [1]}]
    with pytest.raises(ForeignError, match=r"nested too deeply"):
        read_functions(json.dumps({"root": 1, "nodes": nodes}))


def test_an_unknown_intrinsic_is_named():
    with pytest.raises(ForeignError, match=r"calls tir\.magic, which is not known here"):
        read_functions(workload_text("conv").replace("tir.if_then_else", "tir.magic"))


def test_a_trace_that_is_illegal_here_names_its_step():
    func = read_functions(workload_text())["main"]
    steps = [["GetBlock", [], ["C", "main"], ["b0"]], ["ComputeInline", ["b0"], [], []]]
    with pytest.raises(ForeignError, match="step ComputeInline of the trace: compute_inline"):
        replay(func, [steps, []])


def test_a_folder_without_workloads_is_named(tmp_path):
    (tmp_path / "database_tuning_record.json").write_text("")
    with pytest.raises(TuningError, match=r"no database_workload\.json"):
        list(tvm_records.read(tmp_path))


# -------------------------------------------------------------------------------- command line


def test_import_by_command(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "log"
    shutil.copytree(LOGS / "conv", folder)
    with (folder / "database_tuning_record.json").open("a") as file:
        file.write("[0, []]\n")
    checked = run_cli(capfd, "records", "import", "--check", str(folder))
    assert "4 of 5 records carry over" in checked.out
    done = run_cli(capfd, "records", "import", "--db", "new.db", str(folder))
    assert done.out == "4 new trials of 1 workload, 0 known already\n"
    assert "line 5 left out: no record as MetaSchedule writes it" in done.err
    again = run_cli(capfd, "records", "import", "--db", "new.db", str(folder), "--json")
    assert json.loads(again.out)["known"] == 4
    assert [kept["line"] for kept in json.loads(again.out)["kept"]] == [1, 2, 3, 4]
