"""A template tuned for real: locally and over a tracker, logged, and built with the best config."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import tunefarm as tvm
from compiler.tir.text.print_func import workload_key
from rpc_server.box.server import Server
from tests.kit.cli.farm import until
from tests.kit.farm.tracker import CALM
from tests.kit.places import ROOT
from tracker.client import connect_tracker
from tracker.server import Tracker
from tunefarm import autotvm, te
from tuner.records.store import RecordStore

SIZE = 32
PATIENT = {"timeout": 120}  # the machine may be busy
QUICK = {"number": 1, "repeat": 2, "cooldown_interval": 0, **PATIENT}


@autotvm.template("e2e/matmul")
def matmul(n, dtype):
    A = te.placeholder((n, n), name="A", dtype=dtype)
    B = te.placeholder((n, n), name="B", dtype=dtype)
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    y, x = s[C].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    order = [yo, xo, k, yi, xi]
    cfg.define_reorder("order", order, policy="candidate", candidate=[order, [yo, k, xo, yi, xi]])
    cfg["order"].apply(s, C, order)
    cfg.define_annotate("ann", [yi, xi], policy="try_unroll_vec")
    cfg["ann"].apply(s, C, [yi, xi], axis_lens=[cfg["tile_y"].size[-1], cfg["tile_x"].size[-1]], max_unroll=16)
    return s, [A, B, C]


def task() -> autotvm.Task:
    return autotvm.task.create(matmul, (SIZE, "float32"), "llvm")


def assert_multiplies(module):
    a, b = (np.random.default_rng(i).random((SIZE, SIZE), dtype="float32") for i in (1, 2))
    c = tvm.nd.empty((SIZE, SIZE))
    module["matmul"](tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def test_tuned_locally_logged_and_built_with_the_best(tmp_path, capsys):
    log, best = tmp_path / "log", tmp_path / "best"
    wanted = task()
    tuner = autotvm.tuner.XGBTuner(wanted)
    told = []
    tuner.tune(
        n_trial=16,
        measure_option=autotvm.measure_option(autotvm.LocalBuilder(**PATIENT), autotvm.LocalRunner(**QUICK)),
        callbacks=[
            autotvm.callback.log_to_file(str(log)),
            autotvm.callback.progress_bar(16, prefix="matmul"),
            lambda tuner, inputs, results: told.extend(results),
        ],
        store=tmp_path / "records.db",
    )
    records = list(autotvm.load_from_file(log))
    assert len(records) == len(told) == len({i.config for i, _ in records}) == 16
    assert [r for _, r in records if r.error_no != 0 or len(r.costs) != 2] == []
    assert "matmul 16/16" in capsys.readouterr().out
    fastest = min(records, key=lambda pair: pair[1].cost)
    assert tuner.best_config == fastest[0].config
    assert tuner.best_flops == pytest.approx(wanted.flop / fastest[1].cost)
    with RecordStore.open(tmp_path / "records.db") as store:
        (run,) = store.runs.newest()
        trials = [t for t in store.trials.all(run.id) if t.trace is not None]
        # whoever builds the same computation without the template must not be served configs of it
        assert store.workloads.find(workload_key(wanted.untuned)) is None
    assert {json.loads(t.trace)["autotvm"]["template"] for t in trials} == {"e2e/matmul"}
    assert len({t.digest for t in trials}) == 16

    autotvm.record.pick_best(str(log), str(best))
    ((kept, _),) = autotvm.load_from_file(best)
    assert kept.config == fastest[0].config
    with autotvm.apply_history_best(str(best)), tvm.Target("llvm"):
        schedule, args = matmul(SIZE, "float32")
        module = tvm.build(schedule, args, name="matmul")
    assert schedule[args[-1]].relations[0].factor == kept.config["tile_y"].size[-1]
    assert_multiplies(module)


def test_a_batch_measures_what_it_is_given_and_says_what_failed():
    wanted = task()
    indices = [0, 5, 9, 5]
    inputs = [autotvm.MeasureInput(wanted.target, wanted, wanted.config_space.get(i)) for i in indices]
    broken = autotvm.ConfigEntity.from_json_dict(inputs[0].config.to_json_dict())
    broken._entity_map["order"] = autotvm.task.space.ReorderEntity([0, 1])
    inputs.append(inputs[0]._replace(config=broken))
    option = autotvm.measure_option(autotvm.LocalBuilder(**PATIENT), autotvm.LocalRunner(**QUICK))
    with autotvm.create_measure_batch(wanted, option) as measure_batch:
        results = measure_batch(inputs)
        assert measure_batch([]) == []
        assert [r.error_no for r in measure_batch(inputs[:1])] == [0]
    assert [r.error_no for r in results] == [0, 0, 0, 0, autotvm.MeasureErrorNo.INSTANTIATION_ERROR]
    assert results[1] == results[3]  # the same config, measured once
    assert "defined over 2 axes, it is applied to 5" in results[4].costs[0]


def test_tuned_on_a_farm(tmp_path):
    log = tmp_path / "log"
    with Tracker("127.0.0.1", port=0, silent=True, timing=CALM) as tracker:
        address = ("127.0.0.1", tracker.port)
        with Server("127.0.0.1", port=0, silent=True, tracker_addr=address, key="board") as server:
            with connect_tracker(*address, timeout_s=60) as session:
                until(session.devices)
            runner = autotvm.RPCRunner("board", *address, n_parallel=1, **QUICK)
            builder = autotvm.LocalBuilder(n_parallel=1, **PATIENT)
            autotvm.tuner.GATuner(task(), pop_size=4).tune(
                8, autotvm.measure_option(builder, runner), early_stopping=6,
                callbacks=[autotvm.callback.log_to_file(log)],
            )  # fmt: skip
            assert server.port
    records = list(autotvm.load_from_file(log))
    assert 6 <= len(records) <= 8
    assert [r for _, r in records if r.error_no != 0] == []
    with autotvm.apply_history_best(str(log)), tvm.Target("llvm"):
        schedule, args = matmul(SIZE, "float32")
        assert_multiplies(tvm.build(schedule, args, name="matmul"))


def test_what_a_store_knows_is_not_measured_again_and_logged_all_the_same(tmp_path):
    option = autotvm.measure_option(autotvm.LocalBuilder(**PATIENT), autotvm.LocalRunner(**QUICK))

    def run(last: int) -> dict[int, autotvm.MeasureResult]:
        found = {}
        autotvm.tuner.GridSearchTuner(task(), range_idx=(0, last)).tune(
            9, option, store=tmp_path / "db", callbacks=[lambda t, i, r: found.update({i[0].config.index: r[0]})]
        )
        return found

    first, second = run(3), run(5)
    assert (sorted(first), sorted(second)) == ([0, 1, 2, 3], [0, 1, 2, 3, 4, 5])
    measured = [index for index, result in second.items() if len(result.costs) == QUICK["repeat"]]
    assert sorted(measured) == [4, 5]
    assert all(second[i].cost == pytest.approx(first[i].cost) for i in first)


def test_a_template_that_never_works_stops_with_the_first_failure():
    @autotvm.template("e2e/broken")
    def broken(n):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
        s = te.create_schedule(B.op)
        cfg = autotvm.get_config()
        cfg.define_knob("k", list(range(40)))
        cfg.raise_error("not on a Sunday")
        return s, [A, B]

    tuner = autotvm.tuner.GridSearchTuner(autotvm.task.create("e2e/broken", (8,), "llvm"))
    option = autotvm.measure_option(autotvm.LocalBuilder(**PATIENT), autotvm.LocalRunner(**QUICK))
    with pytest.raises(tvm.TVMError, match=r"first 12 trials all failed(.|\n)*not on a Sunday"):
        tuner.tune(40, option)


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "tune.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.e2e.tuning.test_autotvm import PATIENT, QUICK, autotvm, task\n"
        "builder = autotvm.LocalBuilder(n_parallel=1, **PATIENT)\n"
        "option = autotvm.measure_option(builder, autotvm.LocalRunner(**QUICK))\n"
        "autotvm.tuner.RandomTuner(task()).tune(2, option, callbacks=[autotvm.callback.progress_bar(2)])\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2/2") == 1
