"""Builders and runners that a program writes itself, and what is built and measured without one."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import pytest

import tunefarm as tvm
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
    builder, runner = autotvm.LocalBuilder(build_kwargs={"build_option": {}}, build_func="ndk"), Guess()
    builder.set_task(task, {"checks": {}})
    assert builder.build_kwargs == {"build_option": {}, "checks": {}}
    good = MeasureInput(task.target, task, task.config_space.get(1))
    (made,) = builder.build([good])
    assert Path(made.filename).suffix == ".tar"
    assert made.arg_info == (((8, 8), "float32"), ((8, 8), "float32"))
    assert runner.run([good], [made])[0].error_no == 0


def test_a_linker_of_the_program_s_own_makes_the_files(tmp_path: Path) -> None:
    def link(output, objects):
        assert all(Path(name).exists() for name in objects)
        shutil.copy(objects[0], output)

    link.output_format = "obj"
    task = make_task()
    inp = MeasureInput(task.target, task, task.config_space.get(1))
    (made,) = autotvm.LocalBuilder(build_func=link).build([inp])
    assert Path(made.filename).suffix == ".obj"
    (failed,) = autotvm.LocalBuilder(build_func=lambda output: None).build([inp])
    assert failed.error_no == autotvm.measure.MeasureErrorNo.COMPILE_HOST
    assert "positional argument" in failed.costs[0]


def test_build_kwargs_are_the_options_of_a_build() -> None:
    task = make_task()
    inp = MeasureInput(task.target, task, task.config_space.get(2))
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(func, mod, context):
        seen.append(func)
        return func

    builder = autotvm.LocalBuilder(build_kwargs={"build_option": {"tir.add_lower_pass": [(0, look)]}})
    assert builder.is_own
    assert builder.build([inp])[0].error is None
    assert len(seen) == 1
    with pytest.raises(ValueError, match="build_kwargs has a, which no build takes"):
        autotvm.LocalBuilder(build_kwargs={"a": 1}).build([inp])


def test_checks_refuse_kernels_that_no_gpu_runs() -> None:
    task = autotvm.task.create("tests/own_measuring", args=(8,), target="cuda")
    inp = MeasureInput(task.target, task, task.config_space.get(2))
    checks = {"gpu": {"max_vector_bytes": 1}, "cpu": {}}
    (result,) = autotvm.LocalBuilder(build_kwargs={"checks": checks}).build([inp])
    assert result.error_no == autotvm.measure.MeasureErrorNo.INSTANTIATION_ERROR


def test_runners_know_who_loads() -> None:
    loader = autotvm.measure.default_module_loader()
    assert not autotvm.LocalRunner(module_loader=loader).is_own
    assert autotvm.LocalRunner(module_loader=autotvm.measure.default_module_loader(print)).is_own
    assert autotvm.LocalRunner(module_loader=lambda kwargs, built: None).is_own
    with pytest.raises(ValueError, match="module_loader is a function"):
        autotvm.LocalRunner(module_loader=3)


@pytest.mark.parametrize(
    ("error", "said"),
    [(tvm.TVMError("the board is unplugged"), "the board is unplugged"), (OSError("no line"), "OSError: no line")],
)
def test_a_device_that_fails_is_a_result(error: Exception, said: str) -> None:
    task = make_task()
    inp = MeasureInput(task.target, task, task.config_space.get(1))

    @contextlib.contextmanager
    def loader(remote_kwargs, build_result):
        asked.update(remote_kwargs)
        raise error
        yield

    asked: dict[str, object] = {}
    runner = autotvm.RPCRunner("board", "127.0.0.1", 9190, 3, 7.0, module_loader=loader, cooldown_interval=0)
    (made,) = autotvm.LocalBuilder(build_kwargs={"build_option": {}}).build([inp])
    (result,) = runner.run([inp], [made])
    assert (result.costs, result.error_no) == ((said,), 4)
    assert asked == {"device_key": "board", "host": "127.0.0.1", "port": 9190, "priority": 3, "timeout": 7.0}


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
