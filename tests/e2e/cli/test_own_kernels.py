"""`tunefarm tune` of kernels in a TOML and in a Python file: tuned, recorded, resumed."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

from tests.kit import patient_http
from tests.kit.records.measured import untuned_took
from tests.kit.tuner import byok_kernels
from tunefarm.notebook import load_run
from tuner.kernels.space import config_of
from tuner.records.model import TrialPurpose
from tuner.records.store import RecordStore

TOML = """
[run]
trials = 20
samples = 2
max_samples = 2
sample_ms = 2

[[kernel]]
name = "saxpy"
source = "scaled_sum.c"
entry = "saxpy"
compiler = "cc -O3"
args = [{ name = "x", dtype = "float32", shape = [4096] },
        { name = "y", dtype = "float32", shape = [4096] },
        { name = "out", dtype = "float32", shape = [4096], output = true }]
reference = { UNROLL = 1, SCALE = 2 }
flops = "2 * 4096"
[kernel.space]
UNROLL = [1, 2, 4, 8]
SCALE = [2, 3]
"""
PYTHON = """
from scaled_helper import make, scaled

from tuner.kernels.kernel import FunctionKernel
from tuner.kernels.space import KernelSpace

kernel = FunctionKernel("scaled", make, KernelSpace({"LANES": [4, 8, 16, 32], "WRONG": [0, 1]}), scaled())
"""
HELPER = "from byok_kernels import make_scaled as make, scaled\n"


@pytest.fixture
def farm(farm):
    (farm.folder / "scaled_sum.c").write_text(byok_kernels.SAXPY)
    (farm.folder / "kernels.toml").write_text(TOML)
    (farm.folder / "mine.py").write_text(PYTHON)
    (farm.folder / "scaled_helper.py").write_text(HELPER)
    (farm.folder / "byok_kernels.py").write_text(Path(byok_kernels.__file__).read_text())
    return farm


def configs(farm):
    """The configs of the search trials that were measured."""
    with RecordStore.open(farm.db) as store:
        (run,) = store.runs.newest()
        found = [t for t in store.trials.all(run.id) if t.purpose is TrialPurpose.SEARCH]
    return run, [config_of(t.trace) for t in found if t.cost is not None]


def test_c_source_from_a_toml_file(farm):
    (task,) = farm.json("tune", "kernels.toml", "--trials", "6", "--db", farm.db, "--quiet")["tasks"]
    assert task["name"] == "saxpy"
    assert task["trials"] == 6  # the flag, not the file
    assert task["baseline_s"] > 0
    run, measured = configs(farm)
    assert run.options["sample_ms"] == 2
    assert measured
    assert {c["SCALE"] for c in measured} == {2}
    _has_one_speedup(farm, task, run)
    _is_found_by_every_name(farm, run.tasks[0].workload.key)


def _has_one_speedup(farm, task, run):
    """The function as written was measured at the start and at the end: the summary, the run and the lookup mean the
    same of the two."""
    assert task["last_baseline_s"] not in (None, task["baseline_s"])
    config = farm.json("best", "saxpy", "--db", farm.db)["config"]
    (best,) = load_run(farm.db).best()
    assert config["untuned_s"] == run.tasks[0].baseline_cost == min(task["baseline_s"], task["last_baseline_s"])
    assert config["untuned_s"] / config["cost_s"] == task["speedup"] == best.speedup


def _is_found_by_every_name(farm, key):
    """The winning values, the compiler's command and the C declaration are a command away, and a build uses them."""
    words = ("kernels.toml:saxpy", "kernels.toml", "saxpy", key[:12])
    found = [farm.json("best", word, "--db", farm.db) for word in words]
    assert len({json.dumps(reply["config"]["values"]) for reply in found}) == 1
    values = found[0]["config"]["values"]
    shown = farm.run("show", "kernels.toml:saxpy", "--db", farm.db).stdout
    assert f"cc -O3 -fPIC -DSCALE=2 -DUNROLL={values['UNROLL']} -c scaled_sum.c" in shown
    assert "void saxpy(const float *x, const float *y, float *out);" in shown
    assert "GFLOP/s" in shown  # flops = "2 * 4096"
    assert "no workload is called" in farm.run("best", "nothing", "--db", farm.db, code=1).stderr
    farm.run("tune", "kernels.toml", "--trials", "2", "--db", farm.db, "--quiet")
    (pair,) = farm.json("compare", "1", "2", "--db", farm.db)
    assert pair["second_is"] in ("faster", "slower", "tie")
    untuned_took(farm.db, 1.0)
    _, port = farm.serve("web", "web", "--db", farm.db)
    api = ("--api", f"http://127.0.0.1:{port}")
    written = ("--out", "built", "--format", "so", "--format", "header")
    (built,) = farm.json("build", "kernels.toml:saxpy", *written, "--name", "mine", "--check", *api)
    assert (built["config"], built["function"], built["checked"]) == ("hit", "mine", True)
    assert "void mine(const float *x" in (farm.folder / "built" / "mine.h").read_text()
    x, y, out = np.arange(4096, dtype=np.float32), np.ones(4096, np.float32), np.zeros(4096, np.float32)
    ctypes.CDLL(str(farm.folder / "built" / "mine.so")).mine(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y, out)))
    np.testing.assert_array_equal(out, 2 * x + y)
    page = patient_http.get(f"http://127.0.0.1:{port}/runs/1/choices").text
    assert "UNROLL" in page
    assert {_built(farm, word, *api)["artifact_digest"] for word in words} == {
        _built(farm, "saxpy", *api)["artifact_digest"]
    }
    _needs_its_file("kernels.toml:saxpy", "saxpy", farm, *api)


def _built(farm, word, *api):
    (report,) = farm.json("build", word, *api)
    assert report["config"] == "hit"
    return report


def _needs_its_file(spelled, name, farm, *api):
    """A kernel built by its name is one of a file that is as it was, in the folder of the build."""
    path = farm.folder / spelled.split(":")[0]
    text = path.read_text()
    elsewhere = farm.folder / "elsewhere"
    elsewhere.mkdir()
    refused = farm.run("build", name, *api, code=1, cwd=elsewhere).stderr
    assert f"{name} is defined in {path}, which is not in this folder" in refused
    assert f"name the file, if it is yours: tunefarm build {farm.folder / spelled}" in refused
    path.write_text(text + "\n# changed\n")
    refused = farm.run("build", name, *api, code=1).stderr
    assert f"{path} has changed" in refused
    assert f"build it as it is now: tunefarm build {farm.folder / spelled}" in refused
    path.unlink()
    refused = farm.run("build", name, *api, code=1).stderr
    assert f"{path}, which defines {spelled.split(':')[1]}, is gone" in refused
    assert "give the file where it is by now: tunefarm build FILE:" in refused
    path.write_text(text)
    elsewhere.rmdir()


def test_a_function_from_a_python_file_resumed_and_refused(farm):
    (task,) = farm.json("tune", "mine.py:kernel", "--trials", "6", "--db", farm.db, "--quiet")["tasks"]
    assert (task["name"], task["trials"]) == ("scaled", 6)
    run, measured = configs(farm)
    assert measured
    assert {c["WRONG"] for c in measured} == {0}
    farm.run("tune", "--resume", str(run.id), "--trials", "8", "--db", farm.db, "--quiet")
    assert configs(farm)[0].trials == 8
    _, port = farm.serve("web", "web", "--db", farm.db)
    api = ("--api", f"http://127.0.0.1:{port}")
    words = ("mine.py:kernel", "scaled", run.tasks[0].workload.key)
    untuned_took(farm.db, 1.0)
    assert len({_built(farm, word, *api)["artifact_digest"] for word in words}) == 1
    _needs_its_file("mine.py:kernel", "scaled", farm, *api)
    (farm.folder / "mine.py").write_text(PYTHON + "\n# changed\n")
    refused = farm.run("tune", "--resume", str(run.id), "--trials", "9", "--db", farm.db, "--quiet", code=1)
    assert "mine.py has changed since the run began" in refused.stderr
    assert "start a new run" in refused.stderr
