"""Families in TOML and Python files, and on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.engine.options import RunOptions
from tuner.families.family import FamilySpec
from tuner.families.sizes import FamilyError
from tuner.kernels.family_jobs import asked_families
from tuner.kernels.jobs import read_job, recorded_job
from tuner.kernels.kernel import CKernel
from tuner.kernels.spec import SpecError
from tuner.search.base import Candidate

C = "void scale(const float* x, float* out) { for (int i = 0; i < N; i += UNROLL) out[i] = 2 * x[i]; }\n"
TOML = """
[[family]]
workload = "dense:M,32,16"
shapes = ["M=1,4,9"]
traffic = "counts.csv"
portfolio = 2

[[kernel]]
name = "scale"
source = "scale.c"
entry = "scale"
args = [{ name = "x", dtype = "float32", shape = ["N"] },
        { name = "out", dtype = "float32", shape = ["2 * N // 2"], output = true }]
reference = { UNROLL = 1 }
constraints = ["N % UNROLL == 0"]
flops = "2 * N"
shapes = ["N=4,6"]

[kernel.space]
UNROLL = [1, 2, 4]
"""
PYTHON = """
from tests.kit.tuner.kernel_families import doubled_kernel
from tuner.families.sizes import parse_shapes
from tuner.kernels.family_jobs import KernelFamily

families = [{"workload": "dense:M,32,16", "shapes": ["M=1,4"]}]
twice = KernelFamily("twice", lambda sizes: doubled_kernel(sizes["N"]), parse_shapes(["N=8,16"]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scale.c").write_text(C)
    (tmp_path / "counts.csv").write_text("M,count\n1,8\n4,1\n")
    (tmp_path / "kernels.toml").write_text(TOML)
    (tmp_path / "mine.py").write_text(PYTHON)
    return tmp_path


def test_toml_families(folder: Path) -> None:
    job = read_job([str(folder / "kernels.toml")])
    named, scale = job.families
    assert job.items == ()
    assert (named.portfolio, scale.portfolio) == (2, 3)
    assert named.sizes.weights == pytest.approx((0.8, 0.1, 0.1))
    search = scale.search("llvm -mcpu=x86-64-v3", RunOptions(trials=4, strategy="grid"))
    assert [s.task.name for s in search.searches] == ["scale at N=4", "scale at N=6"]
    assert [s.task.flops for s in search.searches] == [8, 12]
    assert len({s.task.key for s in search.searches}) == 2
    offered = [c for s in search.searches for c in s.strategy.ask(9) if isinstance(c, Candidate)]
    assert sum("UNROLL" in c.trace_json for c in offered) == 5, "4 is no divisor of 6"
    assert recorded_job(job.records).records == job.records
    assert read_job([f"{folder / 'kernels.toml'}:scale"]).records == (scale.record,)
    (folder / "scale.c").write_text(C + "// changed")
    with pytest.raises(SpecError, match="has changed"):
        recorded_job(job.records)


def test_python_families(folder: Path) -> None:
    job = read_job([str(folder / "mine.py")])
    named, twice = job.families
    assert isinstance(named.what, FamilySpec)
    search = twice.search("llvm -mcpu=x86-64-v3", RunOptions(trials=4))
    [candidate] = search.searches[1].strategy.ask(1)
    assert "LANES" in candidate.trace_json
    assert search.searches[1].source(candidate).make().buffer_map  # type: ignore[union-attr]
    assert recorded_job(job.records).records == job.records


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('shapes = ["N=4,6"]', 'shapes = ["N=4,4"]', "is there twice"),
        ('shapes = ["N=4,6"]', 'shapes = ["UNROLL=4"]', "both a size and a parameter"),
        ('shapes = ["N=4,6"]', "portfolio = 2", "goes with shapes"),
        ("portfolio = 2", "portfolio = 0", "at least 1 config"),
        ('["M=1,4,9"]', '["K=1"]', "no sizes for M"),
        ("dense:M,32,16", "dense:1,32,16", "no symbol"),
    ],
)
def test_bad_files(folder: Path, before: str, after: str, message: str) -> None:
    assert before in TOML
    (folder / "kernels.toml").write_text(TOML.replace(before, after))
    with pytest.raises(SpecError, match=message):
        read_job([str(folder / "kernels.toml")])


def test_a_command_line(folder: Path) -> None:
    [item] = asked_families(["dense:M,32,16"], ["M=1,4"], str(folder / "counts.csv"), None)
    assert recorded_job([item.record]).families == (item,)
    for words, shapes, traffic, portfolio, message in (
        (["dense:M,32,16"], [], None, None, "no sizes to be tuned for"),
        ([], ["M=1"], None, None, "--shapes goes with"),
        ([], [], None, 2, "--portfolio goes with"),
        (["dense:M,32,16"], ["M=1"], None, 0, "at least 1 config"),
        (["dense:M,32,16"], ["M=1"], str(folder / "counts.csv"), None, "traffic for M=4"),
        (["dense:M,32,16"], ["M=1"], str(folder / "none.csv"), None, "can't be read"),
    ):
        with pytest.raises(FamilyError, match=message):
            asked_families(words, shapes, traffic, portfolio)


def test_kernels_are_those_of_their_sizes(folder: Path) -> None:
    [scale] = read_job([f"{folder / 'kernels.toml'}:scale"]).families
    kernel = scale.what.kernel((6,))  # type: ignore[union-attr]
    assert isinstance(kernel, CKernel)
    assert [a.shape for a in kernel.source_code.arguments] == [(6,), (6,)]
    assert kernel.reference == {"UNROLL": 1, "N": 6}
