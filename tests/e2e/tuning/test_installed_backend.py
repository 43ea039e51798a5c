"""A backend that a distribution brings is known wherever the distribution is: here, in build workers, in executors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.kit.places import ROOT

ENTRY_POINTS = """\
[tunefarm.target_kinds]
toy = toy_backend:KIND

[tunefarm.backends]
toy = toy_backend:CODE

[tunefarm.device_backends]
toy = toy_backend:DEVICE
absent = no_such_module:DEVICE

[tunefarm.tuning_backends]
toy = toy_backend:TUNING

[tunefarm.strategies]
last_first = toy_strategy:LastFirst
"""
STRATEGY = '''\
from tuner.search.grid import GridSearch


class LastFirst(GridSearch):
    """Asks for what a grid has last."""
'''
PROGRAM = """\
import sys
import tunefarm as tvm
from tunefarm import te
from tuner.devices.supplies import LocalFleet
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.plan import sketch_search
from tuner.records.store import RecordStore
from tuner.search.registry import strategy_names
from tuner.task import TuningTask


def main():
    assert "toy_backend" not in sys.modules  # nothing of it is imported before it is used
    try:
        tvm.target.Target("tox")
    except ValueError as error:
        assert "did you mean 'toy'" in str(error), error
    assert "last_first" in strategy_names()
    assert str(tvm.device("toy", 0)) == "ext_dev(0)"
    a = te.placeholder((8,), name="a")
    func = te.create_prim_func([a, te.compute((8,), lambda i: a[i] * 2.0 + 1.0, name="b")])
    search = sketch_search(TuningTask("toy", func, tvm.target.Target("toy -tiles=4")), strategy="last_first")
    options = RunOptions(trials=3, samples=2, max_samples=2, sample_ms=1, builders=1)
    fleet = LocalFleet()
    with RecordStore.open("records.db", create=True) as store:
        try:
            tune([search], fleet=fleet, options=options, store=store)
        finally:
            fleet.close()
        (run,) = store.runs.newest()
        for trial in store.trials.all(run.id):
            print(trial.purpose, trial.failure or "ok", trial.cost)


if __name__ == "__main__":
    main()
"""


def installed(site: Path) -> Path:
    """A folder with the toy's modules and what pip writes beside them."""
    info = site / "toy_backend-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(ROOT / "tests" / "kit" / "toy_backend.py", site)
    (site / "toy_strategy.py").write_text(STRATEGY)
    return site


def test_it_is_tuned_by_a_program_that_registers_nothing(tmp_path: Path) -> None:
    site = installed(tmp_path / "site")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()].count(["search", "ok"]) == 3, done.stdout
