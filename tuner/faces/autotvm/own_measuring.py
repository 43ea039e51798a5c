"""Builders and runners that a program writes itself: their `build` and `run` are called a round at a time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compiler.driver.build import build
from compiler.errors import TunefarmError
from tuner.faces.autotvm.errors import InstantiationError
from tuner.faces.autotvm.measure_types import MeasureInput, MeasureResult
from tuner.faces.common.engine import FaceBuilder, FaceRunner, MeasureOptionError
from tuner.faces.common.measure_error import MeasureErrorNo

if TYPE_CHECKING:
    from tuner.faces.autotvm.task import Task


class BuiltConfig(NamedTuple):
    """A kernel in a file: `arg_info` has the shape and dtype of each argument, `time_cost` the seconds it took."""

    filename: str | None
    arg_info: tuple[tuple[tuple[int, ...], str], ...]
    error: Exception | None
    time_cost: float


class OwnBuilder(FaceBuilder):
    """Base of builders. One that overrides `build` is called with the inputs of each round; others build in processes
    while earlier configs are measured."""

    def __init__(
        self, timeout: float = 10, n_parallel: int | None = None, build_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(timeout, n_parallel)
        self.build_kwargs = dict(build_kwargs or {})
        self.user_build_kwargs = self.build_kwargs
        self.task: Task | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def set_task(self, task: Task, build_kwargs: Mapping[str, Any] | None = None) -> None:
        """Say what is built next; `build_kwargs` come from the runner."""
        self.task = task
        self.build_kwargs = {**(build_kwargs or {}), **self.user_build_kwargs}

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[BuiltConfig | MeasureResult]:
        """Build configs in this process, each in a file; a config that fails gives the result to report."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tunefarm-autotvm-")
        folder = Path(self._folder.name)
        return [self._built(inp, folder / f"{number}.tunefarm") for number, inp in enumerate(measure_inputs)]

    def _built(self, inp: MeasureInput, path: Path) -> BuiltConfig | MeasureResult:
        start = time.perf_counter()
        try:
            func = inp.task.prim_func(inp.config)
            build(func, target=inp.target).save(str(path), "tunefarm")
        except TunefarmError as error:
            kind = (
                MeasureErrorNo.INSTANTIATION_ERROR
                if isinstance(error, InstantiationError)
                else MeasureErrorNo.COMPILE_HOST
            )
            return MeasureResult((str(error),), kind, time.perf_counter() - start, time.time())
        shapes = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
        info = tuple((tuple(int(getattr(d, "value", -1)) for d in b.shape), b.dtype) for b in shapes)
        return BuiltConfig(str(path), info, None, time.perf_counter() - start)

    @property
    def is_own(self) -> bool:
        """Whether `build` is one that a program wrote."""
        return type(self).build is not OwnBuilder.build


class OwnRunner(FaceRunner):
    """Base of runners. One that overrides `run` is called with what was built of each round."""

    def __init__(self, timeout: float = 5, n_parallel: int | None = None, *timing: Any) -> None:
        super().__init__(timeout, *(timing or (4, 3, 0, 0.1, False)))
        self.n_parallel = n_parallel
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

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuiltConfig | MeasureResult]
    ) -> list[MeasureResult]:
        """Measure the configs that could be built; what builds of them this runner makes itself, in processes."""
        from tuner.faces.autotvm.engine_face import measure_on_engine

        good = [inp for inp, made in zip(measure_inputs, build_results) if isinstance(made, BuiltConfig)]
        found: list[MeasureResult] = []
        if good:
            workers = FaceBuilder(self.timeout, None)
            builder, fleet = workers.open(), self.open()
            try:
                found = measure_on_engine(good[0].task, good, workers, self, builder, fleet)
            finally:
                builder.close()
                fleet.close()
        left = iter(found)
        return [next(left) if isinstance(made, BuiltConfig) else made for made in build_results]

    @property
    def is_own(self) -> bool:
        """Whether `run` is one that a program wrote."""
        return type(self).run is not OwnRunner.run


def measures_itself(builder: FaceBuilder, runner: FaceRunner) -> bool:
    """Whether one of them is a program's own."""
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
    tuner: Any,
    n_trial: int,
    builder: FaceBuilder,
    runner: FaceRunner,
    early_stopping: int,
    callbacks: Sequence[Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]],
) -> None:
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
