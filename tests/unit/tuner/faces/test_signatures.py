"""Constructors and defaults of the faces are those that the field's documents give."""

from __future__ import annotations

import functools
import importlib
import inspect
import re

import pytest

from tunefarm import auto_scheduler, autotvm

DOCUMENTED = """
autotvm.measure.measure_methods.LocalBuilder(timeout=10, n_parallel=None, build_kwargs=None,
    build_func='default', do_fork=False, runtime=None)
autotvm.measure.measure_methods.LocalRunner(timeout=10, number=4, repeat=3, min_repeat_ms=0,
    cooldown_interval=0.1, enable_cpu_cache_flush=False, module_loader=None)
autotvm.measure.measure_methods.RPCRunner(key, host, port, priority=1, timeout=10, n_parallel=None,
    number=4, repeat=3, min_repeat_ms=0, cooldown_interval=0.1, enable_cpu_cache_flush=False,
    module_loader=None)
autotvm.measure.measure_methods.measure_option(builder, runner)
autotvm.measure.measure_methods.create_measure_batch(task, option)
autotvm.task.create(task_name, args, target, target_host=None)
autotvm.template(task_name, func=None)
autotvm.get_config()
autotvm.apply_history_best(records)
autotvm.record.encode(inp, result, protocol='json')
autotvm.record.decode(row, protocol='json')
autotvm.record.pick_best(in_file, out_file)
autotvm.callback.log_to_file(file_out, protocol='json')
autotvm.callback.progress_bar(total, prefix='', si_prefix='G')
autotvm.tuner.Tuner.tune(n_trial, measure_option, early_stopping=None, callbacks=(), si_prefix='G')
autotvm.tuner.Tuner.load_history(data_set, min_seed_records=500)
autotvm.tuner.GridSearchTuner(task, range_idx=None)
autotvm.tuner.RandomTuner(task, range_idx=None)
autotvm.tuner.GATuner(task, pop_size=100, elite_num=3, mutation_prob=0.1)
autotvm.tuner.XGBTuner(task, plan_size=64, feature_type='itervar', loss_type='reg',
    num_threads=None, optimizer='sa', diversity_filter_ratio=None, log_interval=50)
auto_scheduler.TuningOptions(num_measure_trials=0, early_stopping=None, num_measures_per_round=64,
    verbose=1, builder='local', runner='local', measure_callbacks=None)
auto_scheduler.TaskScheduler(tasks, task_weights=None, objective_func=None, strategy='gradient',
    load_model_file=None, load_log_file=None, alpha=0.2, beta=2, gamma=0.5, backward_window_size=3,
    callbacks=None)
auto_scheduler.TaskScheduler.tune(tune_option, search_policy='default', search_policy_params=None,
    adaptive_training=False, per_task_early_stopping=None)
auto_scheduler.LocalRunner(timeout=10, number=3, repeat=1, min_repeat_ms=100, cooldown_interval=0.0,
    enable_cpu_cache_flush=False, device=0)
auto_scheduler.RecordToFile(filename)
auto_scheduler.RecordReader(filename)
auto_scheduler.ApplyHistoryBest(records, n_lines=None, include_compatible=False)
auto_scheduler.ApplyHistoryBest.get_workload_entry(best_records, target_key, workload_key)
auto_scheduler.ApplyHistoryBest.load(records, n_lines=None)
auto_scheduler.ApplyHistoryBest.update(target, workload_key, state)
auto_scheduler.extract_tasks(mod, params, target, target_host=None, hardware_params=None,
    include_simple_tasks=False, dump_workload_to_dag_log=None, opt_level=3, other_targets=None)
auto_scheduler.SearchTask(func=None, args=None, compute_dag=None, workload_key=None, target=None,
    target_host=None, hardware_params=None, layout_rewrite_option=None, task_inputs=None,
    task_inputs_overwrite=False, task_inputs_save_to_file=False, desc='')
auto_scheduler.HardwareParams(num_cores=None, vector_unit_bytes=None, cache_line_bytes=None,
    max_shared_memory_per_block=None, max_local_memory_per_block=None, max_threads_per_block=None,
    max_vthread_extent=None, warp_size=None, target=None, target_host=None)
auto_scheduler.register_workload(func_name, f=None, override=False)
auto_scheduler.make_workload_key(func, args)
auto_scheduler.load_best_record(filename, workload_key=None, target=None, include_compatible=False)
auto_scheduler.save_records(filename, inputs, results)
"""


def documented() -> dict[str, str]:
    """The parameters of each name."""
    calls = re.sub(r"\n +", " ", DOCUMENTED).strip().splitlines()
    return {call.partition("(")[0]: call.partition("(")[2].removesuffix(")") for call in calls}


def named(path: str):
    """What `autotvm.task.create` and the like name."""
    return functools.reduce(getattr, path.split(".")[1:], importlib.import_module(f"tunefarm.{path.split('.')[0]}"))


def as_documented(function) -> str:
    """Parameters by position with their defaults; those by name only are our own."""
    shown = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in inspect.signature(function).parameters.values()
        if p.kind is not p.KEYWORD_ONLY and p.name != "self"
    ]
    return ", ".join(shown)


@pytest.mark.parametrize("name", documented())
def test_a_signature_is_the_documented_one(name):
    assert as_documented(named(name)) == documented()[name]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: autotvm.LocalBuilder(build_func="bolt"), "build_func 'bolt'"),
        (lambda: autotvm.measure.default_module_loader(print), "runs no function of yours"),
        (lambda: autotvm.LocalBuilder(timeout=0), "timeout is positive"),
        (lambda: autotvm.LocalBuilder(n_parallel=0), "n_parallel is at least 1"),
        (lambda: autotvm.LocalRunner(module_loader=print), "module_loader"),
        (lambda: autotvm.LocalRunner(number=0), "LocalRunner: number"),
        (lambda: autotvm.RPCRunner("k", "h", 1, n_parallel=0), "n_parallel"),
        (lambda: autotvm.measure_option("remote", "local"), "not a builder: 'remote'"),
        (lambda: autotvm.measure_option("local", "remote"), "not a runner: 'remote'"),
        (lambda: autotvm.create_measure_batch(None, "local"), "comes from autotvm.measure_option"),
        (lambda: autotvm.callback.progress_bar(3, si_prefix="Q"), "SI prefix"),
        (lambda: auto_scheduler.LocalBuilder(build_func="bolt"), "build_func"),
        (lambda: auto_scheduler.LocalRunner(repeat=0), "LocalRunner: number, repeat"),
        (lambda: auto_scheduler.RPCRunner("k", "h", 1, n_parallel=0), "n_parallel"),
        (lambda: auto_scheduler.TuningOptions(runner="rpc"), "not a runner"),
        (lambda: auto_scheduler.TuningOptions(builder=3), "not a builder"),
        (lambda: auto_scheduler.TuningOptions(num_measure_trials=-1), "not negative"),
        (lambda: auto_scheduler.TuningOptions(measure_callbacks=[print]), "not a measure callback"),
        (lambda: auto_scheduler.HardwareParams(num_cores=-1), "num_cores"),
        (lambda: auto_scheduler.XGBModel(num_trees=3), "num_trees"),
        (lambda: auto_scheduler.extract_tasks(None, None, "llvm"), "has no Relay"),
    ],
)
def test_what_there_is_not_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_slips_of_spelling_are_refused_by_name():
    with pytest.raises(TypeError, match="coldown_interval"):
        autotvm.LocalRunner(coldown_interval=1)
