"""A model from a file to a tuned artifact: tune, build with the web app's configs, run."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from compiler.frontend.model_files import read_model_file
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from compiler.tir.text.print_func import workload_key
from tests.kit.cli.run import Outcome, exit_code, run_cli
from tests.kit.web import running_app
from tuner.devices.supplies import local_target
from tuner.kernels.jobs import read_job, recorded_items
from tuner.kernels.model import model_kernels
from tuner.kernels.model_version import model_source, plan_of
from tuner.kernels.stored import stored_record
from tuner.records.model_store.facts import JobState
from tuner.records.store import RecordStore


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two equal layers and one of another shape."""
    rng = np.random.default_rng(0)
    sizes = (48, 48, 48, 16)
    weights = [
        numpy_helper.from_array((rng.standard_normal(shape) / 8).astype("float32"), f"w{at}")
        for at, shape in enumerate(pairwise(sizes))
    ]
    nodes = []
    for at in range(3):
        nodes.append(helper.make_node("MatMul", [f"h{at}", f"w{at}"], [f"m{at}"]))
        nodes.append(helper.make_node("Relu", [f"m{at}"], [f"h{at + 1}"]))
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [32, s]) for n, s in (("h0", 48), ("h3", 16))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    path = tmp_path_factory.mktemp("model") / "layers.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_kernels_of_a_model_are_tasks_weighted_by_their_calls(model: Path) -> None:
    job = read_job([str(model)])
    assert sorted(item.record["weight"] for item in job.items) == [1, 2]
    assert [item.record for item in recorded_items([item.record for item in job.items])] == [
        item.record for item in job.items
    ]
    (one,) = read_job([f"{model}:{job.items[1].record['name']}"]).items
    assert one.record == job.items[1].record
    here = model_kernels(read_model_file(str(model)).module, Target(local_target()))
    assert [kernel.weight for kernel in here] == [kernel.weight for kernel in plan_of(model_source(str(model))).kernels]


def test_a_tuned_model_is_built_checked_and_run(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    db = str(tmp_path / "farm.db")
    tuned = run_cli(capfd, "tune", str(model), "--trials", "2", "--quiet", "--json", "--db", db)
    assert tuned.code == 0, tuned.text
    compared = json.loads(tuned.out).get("whole_models", [])  # none where the drafts stayed
    assert all(guard["name"] == model.stem and guard["untuned_s"] > 0 for guard in compared)
    with RecordStore.open(db) as store, running_app(store) as address:

        def build(*args: str) -> Outcome:
            capfd.readouterr()
            return run_cli(capfd, "build", str(model), "--api", address, *args)

        done = build("--check", "--require-tuned", "--require-tuned-time", "95%", "--out", str(tmp_path / "out"))
        assert done.code == 0, done.text
        assert "2 of 2 kernels tuned, 100% of the kernels' time" in done.out
        assert "h3 agrees" in done.out
        found = json.loads(build("--check", "--json").out)
        assert found["tuned_share"] == pytest.approx(1)
        assert found["checked"]
        assert [kernel["calls"] for kernel in found["kernels"]] == [2, 1]
        unrun = build()  # its times are those that the store has of the configs
        assert "not run: the times, " in unrun.out
        assert [line.split()[-1][-1] for line in unrun.out.splitlines() if " hit " in line or " written " in line] == [
            "%", "%"
        ]  # fmt: skip
        told = json.loads(build("--json").out)
        assert told["seconds"] is None
        assert told["expected_seconds"] == pytest.approx(sum(k["expected_seconds"] for k in told["kernels"]))
        for share in (("--require-tuned", "95%"), ("--require-tuned=95%",)):
            less = build("--no-adapt", *share, "--target", "llvm -mcpu=core2")
            assert less.code == 3, less.text
            assert "0% of the kernels' time is tuned, 95% is asked for" in less.err
        miss = build("--require-tuned", "--target", "llvm -mcpu=core2")
        assert miss.code == 3
        assert f"tunefarm tune {model}" in miss.err
    artifact = tmp_path / "out" / "layers.tunefarm"
    assert run_cli(capfd, "run", str(artifact), "--repeat", "1").code == 0

    done = run_cli(capfd, "run", str(model), "--repeat", "2", "--db", db, "--json")
    assert done.code == 0, done.text
    assert (json.loads(done.out)["recorded"], json.loads(done.out)["tuned_share"]) == (1, pytest.approx(1))
    assert json.loads(run_cli(capfd, "run", str(model), "--untuned", "--db", db, "--json").out)["recorded"] is None
    shown = json.loads(run_cli(capfd, "models", "show", "layers", "--db", db, "--json").out)
    assert shown["runs"] == [1]
    assert [time["tuned_share"] for time in shown["times"]] == [pytest.approx(1)]
    assert [(kernel["calls"], kernel["config"] != "untuned") for kernel in shown["coverage"]["kernels"]] == [
        (2, True),
        (1, True),
    ]
    listed = run_cli(capfd, "models", "list", "--db", db)
    assert "layers" in listed.out
    assert "layers with 1 version\n" in run_cli(capfd, "models", "remove", "layers", "--yes", "--db", db).out
    assert "no models yet" in run_cli(capfd, "models", "list", "--db", db).out


SPEC = """
from tunefarm.relax.frontend import nn

class Net(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(64, 48)

    def forward(self, x):
        return nn.op.relu(self.layer(x))

def network():
    module, _ = Net().export_tvm({"forward": {"x": nn.spec.Tensor(["batch", 64], "float32")}})
    return module.with_functions({gvar if gvar.name_hint != "forward" else type(gvar)("main"): func
                                  for gvar, func in module.functions.items()})
"""


def test_an_artifact_says_which_model_it_was_built_from(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "records.db")
    with RecordStore.open(db, create=True) as store, running_app(store) as address:
        run_cli(capfd, "build", str(model), "--api", address, "--out", str(tmp_path))
    artifact = str(tmp_path / f"{model.stem}.tunefarm")
    origin = {"model": model.stem, "version": model_source(str(model)).digest, "release": ""}
    told = json.loads(run_cli(capfd, "run", artifact, "--repeat", "0", "--json").out)
    assert told["built_from"] == origin
    named = json.loads(run_cli(capfd, "run", str(model), "--repeat", "0", "--json", "--untuned").out)["outputs"]
    assert list(told["outputs"]) == list(named)  # the results keep their names
    assert "output 0" not in named
    assert f"built from {model.stem}, version" in run_cli(capfd, "run", artifact, "--repeat", "0").out


def test_a_model_of_a_python_file_is_tuned_with_its_sizes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spec.py").write_text(SPEC)
    db, spec = str(tmp_path / "farm.db"), f"{tmp_path / 'spec.py'}:network"
    wrong = run_cli(capfd, "tune", spec, "--trials", "1", "--quiet", "--db", db)
    assert "--dim NAME=SIZE" in wrong.err
    assert exit_code("tune", spec, "--dim", "batch=16", "--trials", "1", "--quiet", "--db", db) == 0
    with RecordStore.open(db) as store:
        version = store.models.version_of(store.models.find("network").id)
        assert (version.form, version.sizes) == ("py", {"batch": 16})
        [task] = store.models.tasks(version.id)
        items = read_job([spec], {"batch": 16}).items
        assert [item.model for item in items] == ["network"]
        assert recorded_items([item.record for item in items]) == items
        [stored] = recorded_items([stored_record(version, task)], store)
        assert isinstance(stored.what, PrimFunc)
        assert workload_key(stored.what) == task.workload_key
        assert stored.model == "network"
    capfd.readouterr()
    tuned = run_cli(capfd, "models", "tune", "network", "--trials", "1", "--quiet", "--json", "--db", db)
    assert json.loads(tuned.out)["run"] == 2


def test_a_model_is_profiled_from_the_store(model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    db = str(tmp_path / "records.db")
    run_cli(capfd, "models", "add", str(model), "--db", db)
    assert "does not hold the file" in run_cli(capfd, "models", "profile", model.stem, "--db", db).err
    run_cli(capfd, "models", "add", str(model), "--send", "--db", db)
    with RecordStore.open(db) as store:
        version = store.models.version_of(store.models.find(model.stem).id)
        assert b"".join(store.models.file(version.id)) == model.read_bytes()
        job = store.models.add_job(version.id)
        asked = ("profile", model.stem, "--job", str(job.id), "--repeat", "2", "--json")
        done = run_cli(capfd, "models", *asked, "--db", db)
        [kept] = store.models.jobs(version.id)
        assert (kept.state, kept.time_id) == (JobState.DONE, json.loads(done.out)["recorded"])
        [time] = store.models.times(version.model_id)
        assert (time.id, time.version_id) == (kept.time_id, version.id)
        assert store.models.profile(time.id)
        assert [m.name for m in store.models.page()] == [model.stem]


def test_options_of_models_are_for_models(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "are for models" in run_cli(capfd, "build", "matmul:8,8,8", "--dim", "n=2").err
    assert "built alone" in run_cli(capfd, "build", str(model), "matmul:8,8,8").err
    assert "not a share" in run_cli(capfd, "build", str(model), "--require-tuned-time", "140%").err
