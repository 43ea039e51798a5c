"""`tunefarm build` of a family: one artifact for any size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.core.ndarray import array, empty
from compiler.runtime.load import load_module
from tests.kit.cli.run import run_cli
from tests.kit.tuner.family_records import made_up, stored
from tests.kit.web import running_app
from tuner.records.store import RecordStore


def test_a_family_is_one_artifact(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = made_up("dense:M,48,32", ["M=1,4,17"])
    with RecordStore.open(tmp_path / "records.db", create=True) as store, running_app(store) as address:
        store.families.add(stored(record))
        where = ("--api", address, "--out", str(tmp_path))
        done = run_cli(capfd, "build", "dense:M,48,32", *where, "--require-tuned", "--json")
        assert done.code == 0, done.text
        [told] = json.loads(done.out)
        assert (told["how"], len(told["configs"])) == ("hit", 2)
        dense = load_module(told["file"])[told["function"]]
        data, weight, out = np.ones((5, 32), "float32"), np.ones((48, 32), "float32"), empty((5, 48))
        dense(array(data), array(weight), out)
        np.testing.assert_allclose(out.numpy(), data @ weight.T)
        missing = run_cli(capfd, "build", "dense:M,48,31", *where, "--require-tuned")
        assert (missing.code, "nobody has tuned" in missing.err) == (3, True)
        untuned = run_cli(capfd, "build", "dense:M,48,31", *where)
        assert "dense:M,48,31:float32: untuned" in untuned.out
        refused = run_cli(capfd, "build", "dense:M,48,32", *where, "--check")
        assert refused.code == 2
