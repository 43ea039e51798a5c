"""Computations tuned without a template for real: locally and over a tracker, logged, and built with the best."""

from __future__ import annotations

import numpy as np
import pytest

import tunefarm as tvm
from tunefarm import auto_scheduler, te
from tunefarm.auto_scheduler.task_scheduler import TaskSchedulerCallback

PATIENT = {"timeout": 120}  # the machine may be busy


@auto_scheduler.register_workload("e2e_matmul_add")
def matmul_add(n, m, k):
    A = te.placeholder((n, k), name="A")
    B = te.placeholder((k, m), name="B")
    C = te.placeholder((n, m), name="C")
    r = te.reduce_axis((0, k), name="k")
    matmul = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="matmul")
    return [A, B, C, te.compute((n, m), lambda i, j: matmul[i, j] + C[i, j], name="out")]


def task(n=64, m=64, k=64):
    return auto_scheduler.SearchTask(matmul_add, (n, m, k), target="llvm", desc=f"matmul {n}")


def quick(**options) -> auto_scheduler.LocalRunner:
    return auto_scheduler.LocalRunner(number=1, repeat=2, min_repeat_ms=1, **PATIENT, **options)


def assert_computes(module, n=64, m=64, k=64):
    a, b, c = (np.random.default_rng(i).random(s, dtype="float32") for i, s in enumerate([(n, k), (k, m), (n, m)]))
    out = tvm.nd.empty((n, m))
    module(tvm.nd.array(a), tvm.nd.array(b), tvm.nd.array(c), out)
    np.testing.assert_allclose(out.numpy(), a @ b + c, rtol=1e-4)


def test_tuned_locally_and_built_with_the_best(tmp_path, capsys):
    log = tmp_path / "log.json"
    wanted = task()
    told = []

    class Listen(auto_scheduler.PythonBasedMeasureCallback):
        def callback(self, policy, inputs, results):
            assert isinstance(policy, auto_scheduler.SketchPolicy)
            told.extend(results)

    options = auto_scheduler.TuningOptions(
        num_measure_trials=8, runner=quick(), measure_callbacks=[auto_scheduler.RecordToFile(log), Listen()]
    )
    wanted.tune(options, store=tmp_path / "records.db")
    records = list(auto_scheduler.load_records(log))
    assert len(records) == len(told) == len({i.state for i, _ in records}) == 8
    assert all(r.error_no == 0 and len(r.costs) == 2 for _, r in records)
    assert "8/8  matmul 64: best" in capsys.readouterr().out

    inp, result = auto_scheduler.load_best_record(log, wanted.workload_key)
    assert result.cost == min(r.cost for _, r in records)
    assert inp.state == auto_scheduler.ApplyHistoryBest(log).query("llvm", wanted.workload_key)
    schedule, args = wanted.apply_best(log)
    assert_computes(tvm.build(schedule, args, "llvm", name="matmul"))

    # what the log has is not measured again
    policy = auto_scheduler.SketchPolicy(
        wanted, seed=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)], verbose=0
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=4, verbose=0, runner=quick(), measure_callbacks=[auto_scheduler.RecordToFile(log)]
    )
    wanted.tune(options, policy)
    states = [i.state for i, _ in auto_scheduler.load_records(log)]
    assert len(states) == len(set(states)) == 12


def test_tasks_are_scheduled_together_on_a_farm(tmp_path):
    log = tmp_path / "log.json"
    tasks = [task(), task(n=32)]

    class Count(TaskSchedulerCallback):
        begun: list[int] = []
        ended: list[int] = []

        def pre_tune(self, task_scheduler, task_id):
            self.begun.append(task_id)

        def post_tune(self, task_scheduler, task_id):
            self.ended.append(task_id)

    count = Count()
    scheduler = auto_scheduler.TaskScheduler(
        tasks, objective_func=lambda costs: 2 * costs[0] + costs[1], callbacks=[count]
    )
    with auto_scheduler.LocalRPCMeasureContext(number=1, min_repeat_ms=1, **PATIENT) as farm:
        scheduler.tune(
            auto_scheduler.TuningOptions(
                num_measure_trials=6, verbose=0, runner=farm.runner,
                measure_callbacks=[auto_scheduler.RecordToFile(log)],
            ),
            search_policy="sketch.random",
            search_policy_params={"seed": 3},
        )  # fmt: skip
    assert (scheduler.ct, sum(scheduler.task_cts), len(count.ended)) == (6, 6, 6)
    assert sorted(count.begun) == [0, 1]
    assert min(scheduler.task_cts) >= 1
    best = [auto_scheduler.load_best_record(log, t.workload_key)[1].cost for t in tasks]
    assert scheduler.best_costs == pytest.approx(best)
    assert scheduler.cur_score == pytest.approx(2 * best[0] + best[1])
    for wanted, n in zip(tasks, (64, 32)):
        schedule, args = wanted.apply_best(log)
        assert_computes(tvm.build(schedule, args, name="matmul"), n)
    again = auto_scheduler.TaskScheduler(tasks, load_log_file=str(log))
    assert again.best_costs == pytest.approx(best)


def test_the_empty_policy_measures_what_is_written():
    wanted, told = task(), []

    class Listen(auto_scheduler.PythonBasedMeasureCallback):
        def callback(self, policy, inputs, results):
            told.extend(zip(inputs, results))

    options = auto_scheduler.TuningOptions(5, verbose=0, runner=quick(), measure_callbacks=[Listen()])
    wanted.tune(options, auto_scheduler.EmptyPolicy(wanted))
    ((inp, result),) = told
    assert (inp.state, result.error_no) == (wanted.compute_dag.init_state, 0)


def test_a_policy_of_another_task_is_refused():
    options = auto_scheduler.TuningOptions(5, verbose=0, runner=quick())
    with pytest.raises(ValueError, match="the policy is of"):
        task().tune(options, auto_scheduler.SketchPolicy(task(n=32)))
