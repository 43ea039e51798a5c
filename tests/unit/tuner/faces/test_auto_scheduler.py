"""Workloads, compute DAGs, tasks, records and the contexts that answer from them."""

from __future__ import annotations

import json

import pytest

import tunefarm as tvm
from tests.kit.tuner.auto_scheduler_workloads import matmul_add, matmul_task, record, state_of
from tunefarm import auto_scheduler, te
from tunefarm.auto_scheduler import measure_record, workload_registry

KEY = '["matmul_add", 64, 64, 64, "float32"]'


def test_a_workload_has_a_key_and_a_key_its_tensors():
    assert auto_scheduler.make_workload_key(matmul_add, (64, 64, 64, "float32")) == KEY
    assert auto_scheduler.make_workload_key("matmul_add", (64, 64, 64, "float32")) == KEY
    tensors = workload_registry.workload_key_to_tensors(KEY)
    assert [t.name for t in tensors] == ["A", "B", "C", "out"]
    assert workload_registry.decode_workload_key(KEY) == ("matmul_add", (64, 64, 64, "float32"))

    @auto_scheduler.register_workload("twice")
    def double(A):
        return [A, te.compute(A.shape, lambda *i: A(*i) * 2.0, name="B")]

    key = auto_scheduler.make_workload_key(double, te.placeholder((8,), name="A"))
    assert key == '["twice", ["TENSOR", [8], "float32"]]'
    assert workload_registry.workload_key_to_tensors(key)[0].name == "placeholder"


def test_a_dag_prints_a_line_an_operation():
    dag = matmul_task().compute_dag
    assert str(dag).splitlines() == [
        "A = PLACEHOLDER [64, 64]",
        "B = PLACEHOLDER [64, 64]",
        "matmul(i, j) += (A[i, k]*B[k, j])",
        "C = PLACEHOLDER [64, 64]",
        "out(i, j) = (matmul[i, j] + C[i, j])",
    ]
    assert dag.flop_ct == 2 * 64**3 + 64**2
    A = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    B = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="B")
    one = tvm.tir.const(1.0, "float32")
    E = te.extern((4,), [B], lambda ins, outs: tvm.tir.BufferStore(outs[0], one, [0]), name="E", dtype="float32")
    assert str(auto_scheduler.ComputeDAG([A, E])) == "A = PLACEHOLDER [4, 8]\nB(i) max= A[i, k]\nE = EXTERN(B)\n"


def test_a_dag_is_made_of_a_schedule_or_a_key_too():
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    by_tensors, by_schedule = auto_scheduler.ComputeDAG([A, B]), auto_scheduler.ComputeDAG(te.create_schedule(B.op))
    assert str(by_tensors) == str(by_schedule)
    assert by_tensors.workload_key() == by_schedule.workload_key()
    assert str(auto_scheduler.ComputeDAG(KEY)) == str(matmul_task().compute_dag)
    task = auto_scheduler.SearchTask(compute_dag=by_tensors, target="llvm")
    assert str(auto_scheduler.SearchTask(workload_key=task.workload_key).compute_dag) == str(by_tensors)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: auto_scheduler.SearchTask(), "needs func and args"),
        (lambda: auto_scheduler.SearchTask(matmul_add), "func needs args"),
        (lambda: auto_scheduler.SearchTask(matmul_add, (1,), workload_key=KEY), "not by both"),
        (lambda: auto_scheduler.SearchTask(workload_key='["nobody", 1]'), "no workload is called 'nobody'"),
        (lambda: auto_scheduler.SearchTask(workload_key="nobody"), "not the key of a workload"),
        (lambda: matmul_task(layout_rewrite_option=2), "no layout rewriting"),
        (lambda: matmul_task(task_inputs=["A"]), "task_inputs"),
        (lambda: auto_scheduler.SearchTask("nobody", (1,)), "no workload is called 'nobody'"),
        (lambda: auto_scheduler.make_workload_key(matmul_add, (object(),)), "number, text or tensor"),
        (lambda: auto_scheduler.ComputeDAG(3), "got int"),
        (lambda: auto_scheduler.ComputeDAG([te.placeholder((te.var("n"),), name="A")]), "symbolic"),
        (lambda: auto_scheduler.register_workload("matmul_add", print), "registered already"),
        (lambda: auto_scheduler.SketchPolicy(matmul_task(), params={"eps_lazy": 1}), "eps_lazy"),
        (lambda: auto_scheduler.SketchPolicy(matmul_task(), program_cost_model="xgb"), "not a cost model"),
        (lambda: auto_scheduler.SketchPolicy(matmul_task(), init_search_callbacks=[1]), "PreloadMeasuredStates"),
        (lambda: auto_scheduler.TaskScheduler([]), "at least one task"),
        (lambda: auto_scheduler.TaskScheduler([matmul_task()], task_weights=[1, 2]), "1 tasks have 2 weights"),
        (lambda: auto_scheduler.TaskScheduler([matmul_task()], [1], sum), "give one of them"),
        (lambda: auto_scheduler.TaskScheduler([matmul_task()], strategy="chaos"), "no strategy is called 'chaos'"),
        (lambda: auto_scheduler.TaskScheduler([matmul_task()], alpha=3), "alpha is within 0 to 1"),
        (lambda: matmul_task().tune(auto_scheduler.TuningOptions()), "nothing is measured"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


def test_the_task_in_the_engines_terms_has_the_cores():
    task = matmul_task(hardware_params=auto_scheduler.HardwareParams(num_cores=7)).tuning_task
    assert task.target.num_cores == 7
    assert task.target.mcpu
    assert matmul_task(target="llvm -num-cores=3").tuning_task.target.num_cores == 3
    with tvm.Target("llvm -num-cores=5"):
        assert matmul_task(target=None).tuning_task.target.num_cores == 5


def test_a_record_goes_to_a_line_and_back(tmp_path):
    inp, result = record(matmul_task(), 8, 0.25)
    line = measure_record.dump_record_to_string(inp, result)
    head, _ = json.loads(line)["i"]
    assert head[:2] == [KEY, "llvm"]
    again, same = measure_record.load_record_from_string(line)
    assert (again.state, again.task.workload_key, same) == (inp.state, KEY, result)
    assert str(again.state) == str(inp.state)
    assert again.task.hardware_params == inp.task.hardware_params
    log = tmp_path / "log"
    auto_scheduler.save_records(log, [inp, *(i for i, _ in [record(matmul_task(), 4, None)])], [result, result])
    reader = auto_scheduler.RecordReader(log)
    assert len(list(reader)) == len(list(reader)) == 2
    inputs, results = reader.read_lines(max_lines=5, skip_lines=1)
    assert (inputs[0].state, len(results)) == (state_of(matmul_task(), 4), 1)


def test_a_failed_trial_is_recorded_as_one():
    inp, failed = record(matmul_task(), 8, None)
    line = measure_record.dump_record_to_string(inp, failed)
    assert json.loads(line)["r"] == [[1e10], 4, 0.5, 100.0]
    assert measure_record.load_record_from_string(line)[1].cost == float("inf")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "not a record"),
        ('{"i": [], "r": [], "v": "v0.2"}', "version 'v0.2', which is not known here"),
        ('{"i": [], "r": [], "v": "tunefarm-1"}', "not a record"),
        ('{"i": [["[]", "quantum", [], ""], {}], "r": [[], 0, 0, 0], "v": "tunefarm-1"}', "target that is not known"),
    ],
)
def test_what_is_no_record_is_refused(line, says, tmp_path):
    log = tmp_path / "log"
    log.write_text("\n" + line)
    with pytest.raises(ValueError, match=says) as raised:
        list(auto_scheduler.load_records(log))
    assert "line 2" in str(raised.value)


def test_the_best_record_by_workload_and_target(tmp_path):
    log = tmp_path / "log"
    small, wide, other = matmul_task(), matmul_task(m=128), matmul_task(target="llvm -mcpu=znver3")
    pairs = [record(small, 2, 4.0), record(small, 4, 2.0), record(small, 8, None), record(wide, 16, 1.0),
             record(other, 32, 3.0)]  # fmt: skip
    auto_scheduler.save_records(log, [i for i, _ in pairs], [r for _, r in pairs])

    def best(**options):
        inp, result = auto_scheduler.load_best_record(log, **options)
        return None if inp is None else result.cost

    assert best() == 1.0
    assert best(workload_key=KEY) == 2.0
    assert best(workload_key=KEY, target="llvm -mcpu=znver3") == 3.0
    assert best(workload_key=KEY, target="llvm -mcpu=haswell") is None
    assert best(workload_key=matmul_task(n=32).workload_key) is None
    assert best(workload_key=matmul_task(n=32).workload_key, include_compatible=True) == 4.0 / 2
    kept = tmp_path / "best"
    measure_record.distill_record_file(log, kept)
    assert [r.cost for _, r in auto_scheduler.load_records(kept)] == [2.0, 1.0, 3.0]


def test_history_answers_and_is_updated(tmp_path):
    log = tmp_path / "log"
    task, other = matmul_task(), matmul_task(target="llvm -mcpu=znver3")
    pairs = [record(task, 4, 2.0), record(other, 32, 1.0)]
    auto_scheduler.save_records(log, [i for i, _ in pairs], [r for _, r in pairs])
    history = auto_scheduler.ApplyHistoryBest(str(log))
    assert history.query("llvm", KEY) == state_of(task, 4)
    assert history.query("llvm -mcpu=haswell", KEY) == state_of(task, 32)  # the fastest of any with the key cpu
    assert history.query("llvm", matmul_task(n=32).workload_key) is None
    entry, name, args = history.get_workload_entry(history.best_by_targetkey, "cpu", KEY)
    assert (name, args, entry[args][1]) == ("matmul_add", (64, 64, 64, "float32"), 1.0)
    assert auto_scheduler.ApplyHistoryBest(pairs, n_lines=1).query("llvm -mcpu=znver3", KEY) == state_of(task, 4)
    history.load([record(task, 16, 0.5)])
    assert history.query("llvm", KEY) == state_of(task, 16)
    history.update(tvm.Target("llvm"), KEY, state_of(task, 2))
    assert history.query("llvm", KEY) == state_of(task, 2)
    outer = auto_scheduler.ApplyHistoryBest([record(matmul_task(n=32), 8, 1.0)])
    with outer, history:
        assert auto_scheduler.DispatchContext.current is history
        assert auto_scheduler.DispatchContext.current.query("llvm", matmul_task(n=32).workload_key) is not None
    assert auto_scheduler.DispatchContext.current.query("llvm", KEY) is None
    with pytest.raises(ValueError, match="no context to update"):
        auto_scheduler.DispatchContext.current.update("llvm", KEY, state_of(task, 2))


def test_other_sizes_are_answered_where_the_schedule_fits():
    history = auto_scheduler.ApplyHistoryBest([record(matmul_task(), 8, 1.0)], include_compatible=True)
    found = history.query("llvm", matmul_task(n=128).workload_key)
    assert "T.grid(16, 8" in str(found)
    assert history.query("llvm", matmul_task(n=96).workload_key) is None  # 64 does not divide 96


def test_the_best_is_applied_printed_or_missed(tmp_path):
    log = tmp_path / "log"
    task = matmul_task()
    inp, result = record(task, 8, 1.0)
    auto_scheduler.RecordToFile(str(log)).callback(None, [inp], [result])
    schedule, args = task.apply_best(str(log))
    assert "T.grid(8, 8, 64, 64)" in schedule.mod.script()
    assert [t.name for t in args] == ["A", "B", "C", "out"]
    tvm.lower(schedule, args, simple_mode=True)
    assert "sch.split(l0, [None, 8]" in task.print_best(log)
    assert "define" in task.print_best(log, print_mode="llvm")
    with pytest.raises(ValueError, match="no print_mode 'cuda'"):
        task.print_best(log, print_mode="cuda")
    with pytest.raises(ValueError, match="has no record of"):
        matmul_task(n=32).apply_best(log)
    A = te.placeholder((4,), name="A")
    dag = auto_scheduler.ComputeDAG([A, te.compute((4,), lambda i: A[i] + 1.0, name="B")])
    with pytest.raises(tvm.TVMError, match="matmul"):
        dag.apply_steps_from_state(inp.state)
