"""Files that say what to tune: what they mean, what is wrong with them, and finding them again."""

from __future__ import annotations

import json

import pytest

from compiler.tir.nodes import PrimFunc
from tests.kit.docs_pages import ROOT, blocks
from tuner.engine.options import RunOptions
from tuner.errors import WorkloadError
from tuner.kernels.files import FileMake
from tuner.kernels.jobs import read_job, recorded_items
from tuner.kernels.kernel import CKernel, FunctionKernel
from tuner.kernels.spec import SpecError, parse_spec
from tuner.workloads import WorkloadSpec

TOML = """
workloads = ["matmul:32,32,32:float32"]

[run]
trials = 12
seconds = 30
scheduler = "round-robin"
builders = 1

[[kernel]]
name = "scale"
source = "scale.c"
entry = "scale"
compiler = "cc -O3"
args = [{ name = "x", dtype = "float32", shape = [64] },
        { name = "out", dtype = "float32", shape = [64], output = true }]
reference = { UNROLL = 1 }
constraints = ["UNROLL <= 4"]

[kernel.space]
UNROLL = [1, 2, 4, 8]
"""
C = """
void scale(const float* x, float* out) {
  for (int i = 0; i < 64; i += UNROLL)
    for (int j = 0; j < UNROLL; ++j) out[i + j] = 2 * x[i + j];
}
"""
PYTHON = """
from compiler.te.operation import compute, placeholder
from compiler.te.prim_func import create_prim_func
from tuner.kernels.kernel import FunctionKernel
from tuner.kernels.space import KernelSpace


def twice(n):
    a = placeholder((n,), name="A")
    return create_prim_func([a, compute((n,), lambda i: a[i] * 2.0, name="B")])


def make(config):
    return reference


reference = twice(64)
own = FunctionKernel("twice", make, KernelSpace({"TILE": [1, 2]}), reference)
again = own
several = [twice(16), twice(32)]
_hidden = twice(8)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "kernels.toml").write_text(TOML)
    (tmp_path / "scale.c").write_text(C)
    (tmp_path / "mine.py").write_text(PYTHON)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_toml_file(folder):
    job = read_job(["kernels.toml"])
    assert job.run == {"trials": 12, "seconds": 30.0, "scheduler": "round-robin", "builders": 1}
    workload, kernel = (item.what for item in job.items)
    assert workload == WorkloadSpec("matmul", (32, 32, 32))
    assert isinstance(kernel, CKernel)
    assert kernel.source_code.text == C
    assert [a.output for a in kernel.source_code.arguments] == [False, True]
    assert kernel.space.allows({"UNROLL": 4})
    assert not kernel.space.allows({"UNROLL": 8})


def test_a_python_file_gives_each_public_kernel_once(folder):
    found = {item.record["name"]: item.what for item in read_job(["mine.py"]).items}
    assert list(found) == ["own", "several[0]", "several[1]"]
    assert isinstance(found["several[0]"], PrimFunc)
    own = found["own"]
    assert isinstance(own, FunctionKernel)
    assert isinstance(own.make, FileMake)
    assert isinstance(own.make({"TILE": 1}), PrimFunc)


def test_a_python_file_says_how_the_run_goes_and_names_workloads(folder):
    text = (folder / "mine.py").read_text()
    (folder / "mine.py").write_text(text + 'workloads = ["matmul:8,8,8"]\nrun = {"trials": 7, "task_seconds": 2}\n')
    job = read_job([str(folder / "mine.py")])
    assert isinstance(job.items[0].what, WorkloadSpec)
    assert len(job.items) > 1
    assert job.run == {"trials": 7, "task_seconds": 2.0}
    assert recorded_items([item.record for item in job.items])[0] == job.items[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('workloads = ["matmul:8,8"]', r"only.py: workloads\[0\]: "),
        ('workloads = ["matmul:8,8,8"]\nrun = {"trails": 7}', "only.py: run has no 'trails'"),
    ],
)
def test_what_is_wrong_in_a_python_file_is_said_with_its_place(tmp_path, text, message):
    (tmp_path / "only.py").write_text(text)
    with pytest.raises(SpecError, match=message):
        read_job([str(tmp_path / "only.py")])


def test_one_kernel_of_a_file_beside_a_workload(folder):
    job = read_job(["matmul:8,8,8", "mine.py:several[1]", "kernels.toml:scale"])
    assert [item.record.get("name") for item in job.items] == [None, "several[1]", "scale"]
    searches = [item.search("llvm -mcpu=x86-64", RunOptions(strategy="random")) for item in job.items]
    assert [s.task.name for s in searches] == ["matmul:8,8,8:float32", "several[1]", "scale"]


def test_a_recorded_run_finds_its_kernels_again(folder):
    items = read_job(["kernels.toml", "mine.py"]).items
    kept = json.loads(json.dumps([dict(item.record) for item in items]))
    assert [item.record for item in recorded_items(kept)] == [item.record for item in items]


@pytest.mark.parametrize("changed", ["kernels.toml", "scale.c", "mine.py"])
def test_a_recorded_run_refuses_a_file_that_changed(folder, changed):
    kept = [item.record for item in read_job(["kernels.toml", "mine.py"]).items]
    path = folder / changed
    comment = {".toml": "# new\n", ".c": "// new\n", ".py": "# new\n"}[path.suffix]
    path.write_text(path.read_text() + comment)
    with pytest.raises(SpecError, match=r"has changed since the run began") as raised:
        recorded_items(kept)
    assert "start a new run" in raised.value.hint


def test_a_recorded_run_refuses_a_file_that_is_gone(folder):
    kept = [item.record for item in read_job(["mine.py:own"]).items]
    (folder / "mine.py").unlink()
    with pytest.raises(SpecError, match=r"mine\.py, which defines own, is gone"):
        recorded_items(kept)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("trials = 12", "trails = 12", r"k\.toml: \[run\] has no 'trails'"),
        ("trials = 12", "trials = '12'", r"k\.toml: \[run\]: trials is a whole number, not '12'"),
        ("trials = 12", "trials = -1", r"k\.toml: \[run\]: trials must not be negative"),
        ('"round-robin"', '"best"', r"k\.toml: \[run\]: no task scheduler 'best'"),
        ("matmul:32", "matmal:32", r"k\.toml: workloads\[0\]: no workload is called"),
        ('entry = "scale"', "", r"k\.toml: \[\[kernel\]\] 1 \(scale\) lacks 'entry'"),
        ('entry = "scale"', 'entri = "scale"', r"\[\[kernel\]\] 1 \(scale\) has no 'entri'"),
        ('dtype = "float32", shape = [64] }', 'dtype = "f32", shape = [64] }', r"argument x: no dtype 'f32'"),
        ("shape = [64] }", "shape = 64 }", r"\(scale\): args\[0\]: shape is a list, not 64"),
        ("[1, 2, 4, 8]", "[]", r"\(scale\): space: parameter UNROLL needs a list"),
        ("[1, 2, 4, 8]", "8", r"\(scale\): space: UNROLL is a list, not 8"),
        ("[1, 2, 4, 8]", "[[1], [2]]", r"\(scale\): space\.UNROLL has the value \[1\]"),
        ("UNROLL <= 4", "UNROL <= 4", r"\(scale\): space: constraint 'UNROL <= 4' names UNROL"),
        ("workloads =", "workload =", r"k\.toml has no 'workload'"),
        ("[run]", "[run", r"k\.toml is not TOML: .*line 4"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old, new, message):
    with pytest.raises(SpecError, match=message):
        parse_spec(TOML.replace(old, new, 1), "k.toml")


def test_a_reference_outside_the_space(folder):
    (folder / "kernels.toml").write_text(TOML.replace("{ UNROLL = 1 }", "{ UNROLL = 8 }"))
    with pytest.raises(SpecError, match=r"\[\[kernel\]\] 1 \(scale\): reference: .* does not meet the constraints"):
        read_job(["kernels.toml"])


def test_a_source_that_is_missing(folder):
    (folder / "scale.c").unlink()
    with pytest.raises(SpecError, match=r"\[\[kernel\]\] 1 \(scale\): source: .*scale\.c can't be read: No such file"):
        read_job(["kernels.toml"])


def test_a_python_file_that_fails_names_its_line(folder):
    (folder / "bad.py").write_text("x = 1\ny = x + z\n")
    with pytest.raises(SpecError, match=r"bad\.py, line 2: NameError: name 'z'"):
        read_job(["bad.py"])
    (folder / "empty.py").write_text("x = 1\n")
    with pytest.raises(SpecError, match=r"empty\.py defines no kernel"):
        read_job(["empty.py"])


def test_names_and_files_that_do_not_exist(folder):
    with pytest.raises(SpecError, match=r"mine\.py defines no kernel blur") as raised:
        read_job(["mine.py:blur"])
    assert "own, several[0]" in raised.value.hint
    with pytest.raises(SpecError, match=r"there is no file nowhere\.toml"):
        read_job(["nowhere.toml"])
    with pytest.raises(WorkloadError):
        read_job(["blur"])
    (folder / "other.toml").write_text(TOML)
    with pytest.raises(SpecError, match="two files say how the run goes"):
        read_job(["kernels.toml", "other.toml"])


def test_the_files_of_the_documentation(tmp_path):
    page = blocks(ROOT / "docs" / "own-kernels.md")
    files = {"scale.c": "void scale(", "kernels.toml": "[[kernel]]", "mine.py": "FunctionKernel("}
    for name, what in files.items():
        (tmp_path / name).write_text(next(b.code for b in page if what in b.code and not b.words[1:]))
    items = read_job([str(tmp_path / "kernels.toml"), str(tmp_path / "mine.py")]).items
    assert [item.search("llvm -mcpu=x86-64", RunOptions()).task.name for item in items] == [
        "matmul:64,64,64:float32", "scale", "twice",
    ]  # fmt: skip
    twice = items[-1].what
    assert isinstance(twice, FunctionKernel)
    assert isinstance(twice.make({"LANES": 8}), PrimFunc)
