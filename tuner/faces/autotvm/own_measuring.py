"""Builders and runners that a program writes itself.

Their `build` and `run` are called a round at a time.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.driver.build import build
from compiler.errors import TunefarmError
from compiler.faces.tir_analysis import verify_gpu_code
from compiler.ir.transform.context import PassContext
from compiler.tir.nodes import PrimFunc
from tuner.faces.autotvm.errors import InstantiationError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.autotvm.module_loading import BuiltConfig, DefaultModuleLoader, ModuleLoader, run_through_rpc
from tuner.faces.common.engine import FaceBuilder, FaceRunner, MeasureOptionError
from tuner.faces.common.measure_error import MeasureErrorNo

if TYPE_CHECKING:
    from tuner.faces.autotvm.task import Task


_KNOWN_KWARGS = ("build_option", "checks")


class OwnBuilder(FaceBuilder):
    """Base of builders: they build in processes while earlier configs are measured.

    One that overrides `build`, links with its own function or has `build_kwargs` is called with the inputs of each
    round instead.

    `build_kwargs`: `build_option` is the `config` of the PassContext to build in; `checks` has for a kind of GPU
    ("gpu") what a kernel may use at most, as `tir.analysis.verify_gpu_code` takes it.
    """

    def __init__(
        self, timeout: float = 10, n_parallel: int | None = None, build_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(timeout, n_parallel)
        self.build_kwargs = dict(build_kwargs or {})
        self.user_build_kwargs = self.build_kwargs
        self.link: Callable[..., Any] | None = None
        self.task: Task | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def set_task(self, task: Task, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """Say what is built next; `build_kwargs` come from the runner."""
        self.task = task
        self.build_kwargs = {**(build_kwargs or {}), **self.user_build_kwargs}

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[BuiltConfig | MeasureResult]:
        """Build configs in this process, each in a file; a config that fails gives the result to report.

        Raises MeasureOptionError for `build_kwargs` that no build takes.
        """
        unknown = sorted(set(self.build_kwargs) - set(_KNOWN_KWARGS))
        if unknown:
            raise MeasureOptionError(
                f"build_kwargs has {', '.join(unknown)}, which no build takes",
                hint=f"known: {', '.join(_KNOWN_KWARGS)}",
            )
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tunefarm-autotvm-")
        folder = Path(self._folder.name)
        return [self._built(inp, folder) for inp in measure_inputs]

    def _built(self, inp: MeasureInput, folder: Path) -> BuiltConfig | MeasureResult:
        start = time.perf_counter()
        ending = "tar" if self.link is None else getattr(self.link, "output_format", "so")
        path = str(folder / f"tmp_func_{secrets.token_hex(8)}.{ending}")
        try:
            func = inp.task.prim_func(inp.config)
            self._check(inp, func)
            with PassContext(config=dict(self.build_kwargs.get("build_option") or {})):
                module = build(func, target=inp.target)
        except TunefarmError as error:
            kind = (
                MeasureErrorNo.INSTANTIATION_ERROR
                if isinstance(error, InstantiationError)
                else MeasureErrorNo.COMPILE_HOST
            )
            return MeasureResult((error.message,), kind, time.perf_counter() - start, time.time())
        try:
            module.export_library(path, fcompile=self.link)
        except Exception as error:  # a linker of the program's own fails as it likes
            return MeasureResult((str(error),), MeasureErrorNo.COMPILE_HOST, time.perf_counter() - start, time.time())
        shapes = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
        info = tuple((tuple(int(getattr(d, "value", -1)) for d in b.shape), b.dtype) for b in shapes)
        return BuiltConfig(path, info, None, time.perf_counter() - start)

    def _check(self, inp: MeasureInput, func: PrimFunc) -> None:
        for keys, most in (self.build_kwargs.get("checks") or {}).items():
            if keys in inp.target.keys and not verify_gpu_code(func, most):
                raise InstantiationError("Skipped because of invalid gpu kernel")

    @property
    def is_own(self) -> bool:
        """Whether rounds are built by `build`, in this process."""
        return type(self).build is not OwnBuilder.build or self.link is not None or bool(self.user_build_kwargs)


class OwnRunner(FaceRunner):
    """Base of runners.
    A runner that overrides `run`, or has a loader of the program's own, is called with the builds of each round."""

    def __init__(
        self, timeout: float = 5, n_parallel: int | None = None, *timing: Any, module_loader: ModuleLoader | None = None
    ) -> None:
        super().__init__(timeout, *(timing or (4, 3, 0, 0.1, False)))
        if module_loader is not None and not callable(module_loader):
            raise MeasureOptionError(
                f"module_loader is a function of remote_kwargs and build_result, not {module_loader!r}"
            )
        self.n_parallel = n_parallel
        self.module_loader = module_loader
        self.task: Task | None = None

    def _devices(self) -> Any:
        name = type(self).__name__
        raise MeasureOptionError(f"{name} has no devices", hint="override run, or use autotvm.LocalRunner")

    def set_task(self, task: Task) -> None:
        """Say what is measured next."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """The facts of the devices that the builder gets."""
        return {}

    def remote_kwargs(self) -> dict[str, Any]:
        """Return the arguments of `request_remote` for the devices.
        Raises MeasureOptionError where there are none."""
        raise MeasureOptionError(
            f"{type(self).__name__} has no devices", hint="override run, or use autotvm.LocalRunner"
        )

    def loader(self) -> ModuleLoader:
        """How files get onto the devices."""
        return self.module_loader or DefaultModuleLoader()

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuiltConfig | MeasureResult]
    ) -> list[MeasureResult]:
        """Load the configs that could be built on devices, and time them, one at a time."""
        reference = getattr(measure_inputs[0].task, "ref_input", None)
        return [
            run_through_rpc(
                inp, made, self.number, self.repeat, self.min_repeat_ms, self.cooldown_interval, self.remote_kwargs(),
                reference, self.enable_cpu_cache_flush, self.loader(),
            )
            if isinstance(made, BuiltConfig)
            else made
            for inp, made in zip(measure_inputs, build_results)
        ]  # fmt: skip

    @property
    def is_own(self) -> bool:
        """Whether rounds are measured by `run`."""
        loader = self.module_loader
        plain = loader is None or (type(loader) is DefaultModuleLoader and loader.pre_load_function is None)
        return type(self).run is not OwnRunner.run or not plain


def measures_itself(builder: FaceBuilder, runner: FaceRunner) -> bool:
    """Whether one of them has parts of the program's own."""
    return any(isinstance(part, OwnBuilder | OwnRunner) and part.is_own for part in (builder, runner))


def measured(
    task: Task, inputs: Sequence[MeasureInput], builder: FaceBuilder, runner: FaceRunner
) -> list[MeasureResult]:
    """The results of a round. Raises MeasureOptionError for parts that cannot be called."""
    if not isinstance(builder, OwnBuilder) or not isinstance(runner, OwnRunner):
        raise MeasureOptionError("a builder or runner of your own goes with one of autotvm", hint="derive from Builder")
    runner.set_task(task)
    builder.set_task(task, runner.get_build_kwargs())
    return list(runner.run(inputs, builder.build(inputs)))


def tune_in_rounds(
    tuner: Any, n_trial: int, builder: FaceBuilder, runner: FaceRunner, early_stopping: int,
    callbacks: Sequence[Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]],
) -> None:  # fmt: skip
    """Offer configs, build and measure them, and learn, a round after the other."""
    done = 0
    while done < n_trial and tuner.has_next():
        configs = tuner.next_batch(min(builder.n_parallel, n_trial - done))
        inputs = [MeasureInput(tuner.task.target, tuner.task, config) for config in configs]
        results = measured(tuner.task, inputs, builder, runner)
        for inp, result in zip(inputs, results):
            done += 1
            tuner.note(done, inp, result)
        tuner.update(inputs, results)
        for callback in callbacks:
            callback(tuner, inputs, results)
        if early_stopping and done >= tuner.best_iter + early_stopping:
            return
