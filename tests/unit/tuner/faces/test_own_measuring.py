"""Builders and runners that a program writes itself, and what is built and measured without one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tunefarm import auto_scheduler, autotvm, te
from tuner.faces.autotvm.errors import ConfigError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult


@autotvm.template("tests/own_measuring")
def add_rows(n):
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    cfg = autotvm.get_config()
    cfg.define_knob("tile", [1, 2, 4, 8])
    s[b].split(b.op.axis[1], factor=cfg["tile"].val)
    return s, [a, b]


def make_task():
    return autotvm.task.create("tests/own_measuring", args=(8,), target="llvm")


class Guess(autotvm.measure.measure.Runner):
    def __init__(self):
        super().__init__(1, 1)
        self.built = []

    def run(self, measure_inputs, build_results):
        self.built += build_results
        return [MeasureResult((1.0 / inp.config.index if inp.config.index else 2.0,), 0, 0.1, time.time())
                for inp in measure_inputs]  # fmt: skip


class Nothing(autotvm.LocalBuilder):
    def build(self, measure_inputs):
        return [f"built {inp.config.index}" for inp in measure_inputs]


def test_own_parts_are_called_a_round_at_a_time() -> None:
    task, runner, seen = make_task(), Guess(), []
    tuner = autotvm.tuner.GridSearchTuner(task)
    option = autotvm.measure_option(Nothing(n_parallel=3), runner)
    tuner.tune(10, option, callbacks=[lambda _, inputs, results: seen.append(len(inputs))])
    assert runner.built == [f"built {i}" for i in range(4)]
    assert seen == [3, 1]
    assert tuner.best_config.index == 3
    with autotvm.create_measure_batch(task, option) as batch:
        assert batch([MeasureInput(task.target, task, task.config_space.get(2))])[0].costs == (0.5,)
    with pytest.raises(ConfigError, match="not recorded"):
        tuner.tune(1, option, store="sqlite://")


def test_a_builder_gives_files_and_says_what_fails() -> None:
    task = make_task()
    builder, runner = autotvm.LocalBuilder(build_kwargs={"a": 1}, build_func="ndk"), Guess()
    builder.set_task(task, {"b": 2})
    assert builder.build_kwargs == {"a": 1, "b": 2}
    good = MeasureInput(task.target, task, task.config_space.get(1))
    (made,) = builder.build([good])
    assert Path(made.filename).exists()
    assert made.arg_info == (((8, 8), "float32"), ((8, 8), "float32"))
    assert runner.run([good], [made])[0].error_no == 0
    loader = autotvm.measure.default_module_loader()
    assert autotvm.LocalRunner(module_loader=loader).module_loader is loader


def test_options_of_the_field_s_search_are_accepted() -> None:
    params = {"seed": 1, "eps_greedy": 0.05, "evolutionary_search_population": 512}

    @auto_scheduler.register_workload
    def own_measuring_add(n):
        a = te.placeholder((n,), name="A")
        return [a, te.compute((n,), lambda i: a[i] + 1, name="B")]

    task = auto_scheduler.SearchTask(func=own_measuring_add, args=(8,), target="llvm")
    scheduler = auto_scheduler.TaskScheduler([task], load_model_file="model.json")
    assert len(scheduler._policies("sketch.xgb", params)) == 1
    with pytest.raises(ValueError, match="no_such"):
        scheduler._policies("sketch.xgb", {"no_such": 1})
    auto_scheduler.SketchPolicy(task, auto_scheduler.XGBModel(num_warmup_sample=3), params={"max_vectorize_size": 16})
