"""meta_schedule as its users call it: tuned for real, with the results in a database."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

import pytest

import tunefarm as tvm
from tests.kit.compiler.schedules import workloads as w
from tunefarm import meta_schedule as ms
from tuner.errors import TuningError

QUICK = ms.runner.EvaluatorConfig(number=1, repeat=2, min_repeat_ms=2)
TARGET = "llvm -num-cores=1"


def runner() -> ms.runner.LocalRunner:
    return ms.runner.LocalRunner(timeout_sec=120, evaluator_config=QUICK)


class Seen(ms.MeasureCallback):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        (candidate,), (result,) = measure_candidates, runner_results
        assert len(candidate.args_info) == 3
        self.seen.append((task_scheduler.tasks[task_id].task_name, bool(result.run_secs)))


def test_a_function_is_tuned_into_files(tmp_path):
    func, counted = w.matmul(64, 64, 64), Seen()
    callbacks = [*ms.MeasureCallback.create("default"), counted]
    database = ms.tune_tir(
        func, TARGET, str(tmp_path), 6, runner=runner(), measure_callbacks=callbacks, strategy="replay-trace", seed=1
    )
    assert len(counted.seen) > 6  # the trials, and what the finals measured again
    timed = [name for name, ok in counted.seen if ok]
    assert timed
    again = ms.database.JSONDatabase(work_dir=str(tmp_path))
    assert len(again) == len(database) == len(timed)
    mod = tvm.IRModule({"main": func})
    target = tvm.target.Target(TARGET).resolved()
    best = again.query_tuning_record(mod, target)
    found = again.standing_records(ms.database.Workload(mod))
    assert best.run_secs == min((r.run_secs for r in found), key=median)
    assert any(len(r.run_secs) > QUICK.repeat for r in found)
    assert len({r.trace.to_json() for r in found}) == len(found)  # finalists once, with their longer measurement
    w.check_everywhere(again.query_schedule(mod, target), func)


def test_spaces_of_rules_and_two_tasks(tmp_path):
    rules = ms.ScheduleRule.create("llvm")
    space = ms.space_generator.PostOrderApply(sch_rules=rules, postprocs="llvm")
    contexts = [
        ms.TuneContext(func, target=TARGET, space_generator=space, task_name=name, rand_state=1)
        for name, func in (("product", w.matmul(32, 32, 32)), ("rows", w.row_sum(8, 64)))
    ]
    database = ms.tune_tasks(
        tasks=contexts,
        task_weights=[1.0, 2.0],
        work_dir=str(tmp_path),
        max_trials_global=8,
        runner=runner(),
        database="memory",
        task_scheduler="round-robin",
    )
    assert all(database.get_top_k(ms.database.Workload(c.mod), 1) for c in contexts)


_SCRIPT = """
from tunefarm import meta_schedule as ms, te

print("begins", flush=True)
a = te.placeholder((64,), name="a")
func = te.create_prim_func([a, te.compute((64,), lambda i: a[i] + 1.0, name="b")])
config = ms.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=0)
runner = ms.runner.LocalRunner(timeout_sec=120, evaluator_config=config)
found = ms.tune_tir(func, "llvm -num-cores=1", WORK_DIR, 2, runner=runner, database="memory")
print(len(found) > 0)
"""


def test_a_script_that_guards_nothing_runs_once(tmp_path):
    """Build workers do not import it again from its top, which would end them."""
    script = tmp_path / "tune.py"
    script.write_text(_SCRIPT.replace("WORK_DIR", repr(str(tmp_path))))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    ran = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    assert ran.stdout.split() == ["begins", "True"]


def test_builder_and_runner_alone():
    func = w.matmul(16, 16, 16)
    mod = tvm.IRModule({"main": func})
    target = tvm.target.Target("llvm").resolved()
    (built,) = ms.builder.LocalBuilder(max_workers=1).build([ms.builder.BuilderInput(mod, target)])
    assert built.error_msg is None
    inputs = [ms.runner.RunnerInput(built.artifact_path, "cpu"), ms.runner.RunnerInput("/nowhere/main.tfa", "cpu")]
    good, bad = (future.result() for future in runner().run(inputs))
    assert len(good.run_secs) == 2
    assert "/nowhere/main.tfa" in bad.error_msg


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"builder": "remote"}, "no builder 'remote'"),
        ({"runner": "cloud"}, "no runner 'cloud'"),
        ({"database": "xml"}, "no kind of database 'xml'"),
        ({"cost_model": "oracle"}, "no cost model 'oracle'"),
        ({"task_scheduler": "fifo"}, "no task scheduler 'fifo'"),
        ({"strategy": "luck"}, "no search strategy 'luck'"),
        ({"space": "magic"}, "no kind of space generator 'magic'"),
    ],
)
def test_what_is_not_there_is_refused_before_anything_runs(tmp_path, options, message):
    with pytest.raises(TuningError, match=message):
        ms.tune_tir(w.matmul(8, 8, 8), TARGET, str(tmp_path), 4, **options)


def test_an_rpc_runner_needs_a_tracker():
    with pytest.raises(TuningError, match="needs the tracker's host and port"):
        ms.runner.RPCRunner(ms.runner.RPCConfig()).fleet()
