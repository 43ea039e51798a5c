"""Functions that builders and runners of meta_schedule are given: `f_build`, `f_alloc_argument` and the others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tunefarm import build, ir, register_func, te
from tunefarm import meta_schedule as ms
from tunefarm.error import TVMError
from tunefarm.meta_schedule.runner.local_runner import default_alloc_argument, default_cleanup, default_run_evaluator
from tunefarm.meta_schedule.runner.rpc_runner import default_upload_module
from tunefarm.target import Target

INFOS = [ms.arg_info.TensorInfo("float32", (32,))] * 2
ONCE = ms.runner.EvaluatorConfig(number=1, repeat=2, min_repeat_ms=0)


def added() -> ir.IRModule:
    a = te.placeholder((32,), name="A")
    b = te.compute((32,), lambda i: a[i] + 1.0, name="B")
    return ir.IRModule({"main": te.create_prim_func([a, b])})


def given() -> ms.builder.BuilderInput:
    return ms.builder.BuilderInput(added(), Target("llvm"))


def built() -> str:
    (result,) = ms.builder.LocalBuilder(max_workers=1).build([given()])
    assert result.artifact_path is not None
    return result.artifact_path


def run_input() -> ms.runner.RunnerInput:
    return ms.runner.RunnerInput(built(), "llvm", INFOS)


def test_a_function_of_your_own_builds() -> None:
    def f_build(mod: Any, target: Any, params: Any) -> Any:
        assert params is None
        return build(mod, target=target)

    (result,) = ms.builder.LocalBuilder(f_build=f_build).build([given()])
    assert result.error_msg is None
    assert result.artifact_path is not None
    assert Path(result.artifact_path).is_file()


def test_a_function_of_your_own_exports(tmp_path: Path) -> None:
    def f_export(mod: Any) -> str:
        mod.export_library(str(tmp_path / "x.tar"))
        return str(tmp_path / "x.tar")

    (result,) = ms.builder.LocalBuilder(f_export=f_export).build([given()])
    assert result.artifact_path == str(tmp_path / "x.tar")
    (future,) = ms.runner.LocalRunner(evaluator_config=ONCE, f_cleanup=default_cleanup).run(
        [ms.runner.RunnerInput(result.artifact_path, "llvm", INFOS)]
    )
    assert future.result().error_msg is None


def test_an_error_of_such_a_function_is_the_candidates() -> None:
    def bad(*_: Any) -> None:
        raise ValueError("no luck")

    (result,) = ms.builder.LocalBuilder(f_build=bad).build([given()])
    assert result.artifact_path is None
    assert "no luck" in str(result.error_msg)
    (result,) = ms.builder.LocalBuilder(initializer=bad).build([given()])
    assert "no luck" in str(result.error_msg)


def test_a_function_that_takes_too_long_is_stopped() -> None:
    def slow(*_: Any) -> None:
        time.sleep(60)

    (result,) = ms.builder.LocalBuilder(f_build=slow, timeout_sec=0.3).build([given()])
    assert "Timeout" in str(result.error_msg)
    (future,) = ms.runner.LocalRunner(timeout_sec=0.3, f_alloc_argument=slow).run([run_input()])
    assert "Timeout" in str(future.result().error_msg)


def test_a_crash_costs_one_candidate() -> None:
    def crash(*_: Any) -> None:
        import os

        os._exit(7)

    first, second = ms.builder.LocalBuilder(f_build=crash).build([given(), given()])
    assert "status 7" in str(first.error_msg)
    assert "status 7" in str(second.error_msg)


def test_registered_functions_are_found_by_name() -> None:
    @register_func("test_own_functions.build", override=True)
    def made(mod: Any, target: Any, params: Any) -> Any:
        return build(mod, target=target)

    (result,) = ms.builder.LocalBuilder(f_build="test_own_functions.build").build([given()])
    assert result.error_msg is None
    with pytest.raises(TVMError, match="wrong-name"):
        ms.builder.LocalBuilder(f_build="wrong-name")
    with pytest.raises(TVMError, match="wrong-name"):
        ms.runner.LocalRunner(f_run_evaluator="wrong-name")


def test_a_runner_calls_the_functions_it_was_given(tmp_path: Path) -> None:
    note = tmp_path / "calls"

    def alloc(device: Any, args_info: Any, alloc_repeat: int) -> Any:
        note.write_text(f"alloc {alloc_repeat}\n")
        return default_alloc_argument(device, args_info, alloc_repeat)

    def evaluate(module: Any, device: Any, config: Any, repeated: Any) -> Any:
        with note.open("a") as file:
            file.write(f"run {len(repeated)}\n")
        return default_run_evaluator(module, device, config, repeated)

    def clean() -> None:
        with note.open("a") as file:
            file.write("clean\n")

    runner = ms.runner.LocalRunner(
        evaluator_config=ONCE, alloc_repeat=3, f_alloc_argument=alloc, f_run_evaluator=evaluate, f_cleanup=clean
    )
    (future,) = runner.run([run_input()])
    result = future.result()
    assert result.error_msg is None
    assert result.run_secs is not None
    assert len(result.run_secs) == 3 * ONCE.repeat
    assert note.read_text().splitlines() == ["alloc 3", "run 3", "clean"]


def test_a_session_of_your_own_is_used() -> None:
    class Session:
        """A session on this machine, with what is asked of one."""

        def device(self, kind: str, index: int) -> Any:
            from tunefarm import runtime

            return runtime.device(kind, index)

        def upload(self, path: str, name: str) -> None:
            self.path = path

        def load_module(self, name: str) -> Any:
            from tunefarm import runtime

            return runtime.load_module(self.path)

        def remove(self, name: str) -> None:
            """Do nothing: the file is the test's."""

    runner = ms.runner.RPCRunner(
        ms.runner.RPCConfig("h", 1, "k"),
        evaluator_config=ONCE,
        f_create_session=lambda config: Session(),
        f_upload_module=default_upload_module,
    )
    (future,) = runner.run([run_input()])
    result = future.result()
    assert result.error_msg is None
    assert result.run_secs is not None
    assert len(result.run_secs) == ONCE.repeat


def test_tuning_takes_functions_of_your_own(tmp_path: Path) -> None:
    def f_build(mod: Any, target: Any, params: Any) -> Any:
        (tmp_path / "asked").touch()
        return build(mod, target=target)

    database = ms.tune_tir(
        added(),
        Target("llvm -num-cores=1"),
        str(tmp_path),
        max_trials_global=2,
        num_trials_per_iter=2,
        builder=ms.builder.LocalBuilder(f_build=f_build),
        runner=ms.runner.LocalRunner(evaluator_config=ONCE, f_cleanup=default_cleanup),
        space=ms.space_generator.ScheduleFn(lambda sch: None, postprocs=[], mutator_probs={}),
        strategy="replay-trace",
        cost_model="random",
    )
    assert (tmp_path / "asked").exists()
    assert len(database)
