"""`tunefarm build` of a family: one artifact for any size, as a library for C, and checked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_module
from tests.kit.cli.run import run_cli
from tests.kit.tuner.family_records import made_up, stored
from tests.kit.web import running_app
from tuner.records.store import RecordStore

EXAMPLE = Path(__file__).parents[5] / "examples" / "run_family.c"


def test_a_family_is_one_artifact(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = made_up("dense:M,48,32", ["M=1,4,17"])
    with RecordStore.open(tmp_path / "records.db", create=True) as store, running_app(store) as address:
        store.families.add(stored(record))
        where = ("--api", address, "--out", str(tmp_path), "--device-class", "made-up")
        done = run_cli(capfd, "build", "dense:M,48,32", *where, "--require-tuned", "--check", "--json")
        assert done.code == 0, done.text
        [told] = json.loads(done.out)
        assert (told["how"], len(told["configs"])) == ("hit", 2)
        assert [(check["size"], check["failure"]) for check in told["checks"]] == [
            ([size], None) for size in (1, 4, 17, 18)
        ]
        dense = load_module(told["file"])[told["function"]]
        data, weight, out = np.ones((5, 32), "float32"), np.ones((48, 32), "float32"), empty((5, 48))
        dense(array(data), array(weight), out)
        np.testing.assert_allclose(out.numpy(), data @ weight.T)
        more = run_cli(capfd, "build", "dense:M,48,32", *where, "--check", "--json", "--shapes", "M=4,9")
        assert [check["size"] for check in json.loads(more.out)[0]["checks"]] == [[1], [4], [17], [18], [9]], more.text
        wrong = run_cli(capfd, "build", "dense:M,48,32", *where, "--shapes", "N=4")
        assert "no family that is built has a size N" in wrong.err
        missing = run_cli(capfd, "build", "dense:M,48,31", *where, "--require-tuned")
        assert (missing.code, "nobody has tuned" in missing.err) == (3, True)
        untuned = run_cli(capfd, "build", "dense:M,48,31", *where, "--check")
        assert "dense:M,48,31:float32: untuned" in untuned.out
        assert "M=32: output checked" in untuned.out


def test_the_best_of_a_family(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    db = f"sqlite:///{tmp_path}/records.db"
    with RecordStore.open(db, create=True) as store:
        store.families.add(stored(made_up("conv2d:1,4,H,W,8,3,3", ["W,H=5x6,8x8"])))
    words = ("--db", db, "--shapes", "height,width=6x5,7x9")
    done = run_cli(capfd, "best", "conv2d:1,4,height,width,8,3,3", *words)
    assert done.code == 0, done.text
    assert "2 sizes" in done.out
    assert "W=5, H=6:" in done.out
    assert "this size was measured" in done.out
    assert "W=9, H=7:" in done.out
    told = json.loads(run_cli(capfd, "best", "conv2d:1,4,height,width,8,3,3", *words, "--json").out)
    assert [(one["size"], one["sure"]) for one in told["explain"]] == [([5, 6], "measured"), ([9, 7], "near")]
    assert told["config"]["record"]["format"] == "tunefarm.family"
    for line, code, text in (
        (("best", "dense:M,48,31"), 3, "tunefarm tune dense:M,48,31 --shapes M=1,16,128"),
        (("best", "dense:M,48,32", "--shapes", "N=1"), 1, "no sizes for M"),
        (("best", "dense:8,48,32", "--shapes", "M=1"), 2, "--shapes is for families"),
        (("best", "dense:M,48,32", "--objective", "energy"), 2, "chosen by time"),
        (("show", "dense:M,48,32"), 1, "tunefarm best dense:M,48,32"),
    ):
        wrong = run_cli(capfd, *line, "--db", db)
        assert (wrong.code, text in wrong.text) == (code, True), wrong.text


def test_a_c_program_calls_it_at_any_size(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store, running_app(store) as address:
        store.families.add(stored(made_up("dense:M,48,32", ["M=1,4,17"])))
        words = ("dense:M,48,32", "--name", "dense", "--api", address, "--out", str(tmp_path))
        done = run_cli(capfd, "build", *words, "--format", "so", "--format", "header", "--format", "tar")
        assert done.code == 0, done.text
    assert sorted(file.name for file in tmp_path.glob("dense.*")) == ["dense.h", "dense.so", "dense.tar"]
    sizes = ["-DCOLUMNS=32", "-DROWS_OF_WEIGHT=48"]
    program = tmp_path / "run"
    command = ["cc", *sizes, f"-I{tmp_path}", str(EXAMPLE), "-o", program, tmp_path / "dense.so", "-lm", "-lpthread"]
    subprocess.run(command, check=True)
    ran = subprocess.run([program, "1", "4", "5", "40"], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [f"{rows} rows: right" for rows in (1, 4, 5, 40)]
