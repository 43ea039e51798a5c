"""Options of the faces that are refused, and how."""

from __future__ import annotations

import pytest

from tunefarm import auto_scheduler, autotvm


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: autotvm.LocalBuilder(build_func="bolt"), "build_func 'bolt'"),
        (lambda: autotvm.LocalBuilder(timeout=0), "timeout is positive"),
        (lambda: autotvm.LocalBuilder(n_parallel=0), "n_parallel is at least 1"),
        (lambda: autotvm.LocalRunner(module_loader=3), "module_loader"),
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
        (lambda: auto_scheduler.extract_tasks(None, None, "llvm", other_targets=["cuda"]), "one target"),
    ],
)
def test_what_there_is_not_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_slips_of_spelling_are_refused_by_name():
    with pytest.raises(TypeError, match="coldown_interval"):
        autotvm.LocalRunner(coldown_interval=1)
