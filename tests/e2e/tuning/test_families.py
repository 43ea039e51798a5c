"""`tunefarm tune` of one kernel at many sizes, on this machine: portfolio, rule and record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.cli.run import run_cli
from tuner.families.family import family_key
from tuner.families.record import FamilyRecord
from tuner.records.store import RecordStore

SOURCE = """
void scale(const float* x, float* out) {
  for (int i = 0; i < N; ++i) out[i] = BROKEN && N == 64 ? 0 : 2 * x[i];
}
"""
TOML = """
[run]
samples = 2
max_samples = 2
sample_ms = 2
finalists = 1
final_rounds = 1

[[kernel]]
name = "scale"
source = "scale.c"
entry = "scale"
compiler = "cc -O1"
args = [{ name = "x", dtype = "float32", shape = ["N"] },
        { name = "out", dtype = "float32", shape = ["N"], output = true }]
reference = { BROKEN = 0 }
shapes = ["N=16,64"]

[kernel.space]
BROKEN = [0, 1]
"""


def test_a_kernel_in_c_at_two_sizes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A config that is wrong at one size is rejected, though it works at the other."""
    (tmp_path / "scale.c").write_text(SOURCE)
    (tmp_path / "kernels.toml").write_text(TOML)
    db = f"sqlite:///{tmp_path}/records.db"
    done = run_cli(capfd, "tune", str(tmp_path / "kernels.toml"), "--trials", "2", "--db", db, "--json", "--quiet")
    assert done.code == 0, done.text
    record = FamilyRecord.from_json(json.loads(done.out)["families"][0])
    assert [dict(config.values) for config in record.configs] == [{"BROKEN": 0, "N": 0}]
    assert [record.rule.pick((n,)) for n in (16, 64, 1000)] == [0, 0, 0]
    assert record.explain((64,)).sure == "measured"
    with RecordStore.open(db) as store:
        [kept] = store.families.newest()
        assert FamilyRecord.from_json(kept.record) == record
        assert store.families.in_use(family_key(record.what), record.target, kept.device_class) == kept
        assert kept.run_id == 1
        assert kept.device_class
    again = run_cli(capfd, "tune", "--resume", "1", "--trials", "3", "--db", db, "--quiet")
    assert again.code == 0, again.text
    assert "scale: 1 config for 2 sizes" in again.out.replace("\n", " ")


def test_refusals(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words, text in (
        (["dense:M,8,8"], "no sizes to be tuned for"),
        (["dense:M,8,8", "--shapes", "M=1,1"], "is there twice"),
        (["dense:M,8,8", "--shapes", "M=1", "--portfolio", "0"], "at least 1 config"),
    ):
        done = run_cli(capfd, "tune", *words, "--db", f"sqlite:///{tmp_path}/none.db")
        assert done.code == 1
        assert text in done.err
