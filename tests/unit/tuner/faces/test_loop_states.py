"""States of auto_scheduler that a program makes step by step, and what goes with them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tunefarm as tvm
from compiler.errors import ScheduleError
from tunefarm import auto_scheduler, te
from tunefarm.auto_scheduler import measure, measure_record
from tuner.faces.auto_scheduler.errors import SchedulerError


@auto_scheduler.register_workload("loop_states_product")
def product(n: int):
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def computed(schedule, tensors, n=32):
    built = tvm.build(schedule, tensors, "llvm")
    a, b = (np.random.default_rng(s).random((n, n), dtype=np.float32) for s in (1, 2))
    c = tvm.nd.array(np.zeros((n, n), np.float32))
    built(tvm.nd.array(a), tvm.nd.array(b), c)
    return np.allclose(c.numpy(), a @ b, rtol=1e-4)


def test_every_step_goes_to_a_row_and_back():
    dag = auto_scheduler.ComputeDAG(product(32))
    c = dag.tensors[2]
    state = dag.get_init_state()
    cache = state.cache_write(c, "global")
    copied = state.cache_read(dag.tensors[0], "global", [cache])
    parts = state.split(c, state[c].iters[0], [4, 2])
    state.follow_split(cache, state[cache].iters[0], 2, 1)
    state.follow_fused_split(cache, state[cache].iters[2], [2], 0, True)
    state.compute_at(cache, c, parts[0])
    state.compute_at(copied, cache, state[cache].iters[0])
    state.compute_root(copied)
    state.reorder(cache, [state[cache].iters[i] for i in (0, 2, 1, 3, 4)])
    state.fuse(c, state[c].iters[1:3])
    state.parallel(c, state[c].iters[0])
    state.unroll(c, state[c].iters[1])
    state.vectorize(c, state[c].iters[2])
    state.pragma(c, state[c].iters[0], "auto_unroll_max_step$16")
    rows = [step.row() for step in state.transform_steps]
    assert [row[0] for row in rows] == [
        "CHW", "CHR", "SP", "FSP", "FFSP", "CA", "CA", "CR", "RE", "FU", "AN", "AN", "AN", "PR"
    ]  # fmt: skip
    task = auto_scheduler.SearchTask(func=product, args=(32,), target="llvm")
    inp = auto_scheduler.MeasureInput(task, state)
    line = measure_record.dump_record_to_string(inp, auto_scheduler.MeasureResult((0.5,), 0, "", 1.0, 2.0))
    assert json.loads(line)["i"][1] == [[], rows]
    read, _ = measure_record.load_record_from_string(line)
    assert read.state == state
    assert str(read.state) == str(state)
    assert computed(*dag.apply_steps_from_state(read.state))


def test_rfactor_and_inline():
    dag = auto_scheduler.ComputeDAG(product(32))
    state = dag.get_init_state()
    outer, _ = state.split(dag.tensors[2], state[dag.tensors[2]].iters[2], [8])
    made = state.rfactor(dag.tensors[2], outer, 2)
    assert made.name == "C.rf"
    assert [it.extent for it in state[made].iters] == [32, 32, 4, 8]
    assert computed(*dag.apply_steps_from_state(state))
    state.compute_inline(made)
    with pytest.raises(ScheduleError):
        dag.apply_steps_from_state(state)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda s, c: s.bind(c, s[c].iters[0], "core"), "no thread 'core'"),
        (lambda s, c: s.fuse(c, [s[c].iters[0], s[c].iters[2]]), "right inside one another"),
        (lambda s, c: s.reorder(c, s[c].iters[:2]), "all 3 iterators"),
        (lambda s, c: s.follow_split(c, s[c].iters[0], 0, 1), "no split"),
        (lambda s, c: s["D"], "no stage"),
        (lambda s, c: s.compute_root(c) or s.trace, "no trace"),
    ],
)
def test_what_a_state_refuses(wrong, says):
    dag = auto_scheduler.ComputeDAG(product(32))
    with pytest.raises(SchedulerError, match=says):
        wrong(dag.get_init_state(), dag.tensors[2])


def test_an_iterator_that_was_split_is_gone():
    dag = auto_scheduler.ComputeDAG(product(32))
    state = dag.get_init_state()
    old = state[dag.tensors[2]].iters[0]
    state.split(dag.tensors[2], old, [8])
    with pytest.raises(SchedulerError, match="no iterator of stage 'C' any more"):
        state.parallel(dag.tensors[2], old)


def test_states_are_built_and_measured_by_hand():
    task = auto_scheduler.SearchTask(func=product, args=(32,), target="llvm")
    policy = auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), seed=1, verbose=0)
    states = [task.compute_dag.init_state, policy.generate_sketches()[0]]
    inputs = [auto_scheduler.MeasureInput(task, state) for state in states]
    runner = auto_scheduler.LocalRunner(number=1, min_repeat_ms=0, timeout=60)
    built = auto_scheduler.LocalBuilder(n_parallel=1, timeout=60).build(inputs)
    assert [each.error_no for each in built] == [0, 0]
    assert all(result.error_no == 0 and result.costs for result in runner.run(inputs, built))
    told: list[int] = []

    class Told(measure.PythonBasedMeasureCallback):
        def callback(self, policy, inputs, results):
            told.append(len(results))

    measurer = measure.ProgramMeasurer(auto_scheduler.LocalBuilder(n_parallel=1, timeout=60), runner, [Told()], 0)
    asked, found = policy.continue_search_one_round(2, measurer)
    assert len(asked) == len(found) == 2
    assert told == [2]
    failed = measure.BuildResult(None, (), 2, "does not build", 0.0)
    assert runner.run(inputs[:1], [failed])[0].error_msg == "does not build"


def test_a_model_that_learns_by_hand(tmp_path):
    task = auto_scheduler.SearchTask(func=product, args=(64,), target="llvm -num-cores 2")
    states = auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), seed=1).sample_initial_population()
    inputs = [auto_scheduler.MeasureInput(task, state) for state in states[:20]]
    results = [auto_scheduler.MeasureResult((1e-4 * (1 + i),), 0, "", 0.1, 0) for i in range(20)]
    model = auto_scheduler.XGBModel()
    assert not model.predict(task, states[:2]).any()
    model.update(inputs, results)
    scores = model.predict(task, [inp.state for inp in inputs])
    assert scores[:5].mean() > scores[-5:].mean()
    assert model.predict(task, [task.compute_dag.init_state]) == 0  # a state that the search does not know
    model.save(tmp_path / "model")
    again = auto_scheduler.XGBModel()
    again.load(tmp_path / "model")
    assert np.array_equal(again.predict(task, states), model.predict(task, states))


def test_a_workload_goes_to_another_process():
    text = auto_scheduler.workload_registry.serialize_workload_registry_entry("loop_states_product")
    auto_scheduler.workload_registry.deserialize_workload_registry_entry(text)
    assert auto_scheduler.make_workload_key(product, (8,)) == '["loop_states_product", 8]'


def test_what_a_task_scheduler_prints_and_logs(tmp_path, capsys):
    from tunefarm.auto_scheduler.task_scheduler import LogEstimatedLatency, PrintTableInfo

    tasks = [auto_scheduler.SearchTask(func=product, args=(n,), target="llvm") for n in (8, 16)]
    log = tmp_path / "latency.tsv"
    callbacks = [PrintTableInfo(), LogEstimatedLatency(log)]
    scheduler = auto_scheduler.TaskScheduler(tasks, callbacks=callbacks)
    scheduler.count(0, 0.5)
    assert not log.exists()  # nothing is known of the other
    scheduler.count(1, 0.25)
    assert log.read_text().split("\t")[2:] == ["EstimatedLatency(ms)", "750.000", "Trials", "2\n"]
    assert "|    1 |      250.000 |" in capsys.readouterr().out
