"""Which task of a run is next, and what callbacks see of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tuner.engine.scheduling import GradientOptions, Policy, TaskView
from tuner.errors import UnknownKindError
from tuner.faces.meta_schedule.tasks_run import run_tasks

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.builder import Builder
    from tuner.faces.meta_schedule.cost_models.cost_model import CostModel
    from tuner.faces.meta_schedule.databases.database import Database
    from tuner.faces.meta_schedule.measure_callback import MeasureCallback
    from tuner.faces.meta_schedule.runner import Runner
    from tuner.faces.meta_schedule.tune_context import TuneContext

_KINDS = ("gradient", "round-robin")


class TaskScheduler:
    """A run's tasks, database, callbacks and cost model. A kind of its own says which task is next."""

    TaskSchedulerType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

    policy = Policy.GRADIENT
    # A subclass need not call our __init__: a run sets these.
    tasks: Sequence[TuneContext] = ()
    database: Database | None = None
    callbacks: Sequence[MeasureCallback] = ()
    cost_model: CostModel | None = None

    def __init__(
        self,
        tasks: Sequence[TuneContext] = (),
        database: Database | None = None,
        callbacks: Sequence[MeasureCallback] = (),
        cost_model: CostModel | None = None,
    ) -> None:
        self.tasks = tuple(tasks)
        self.database = database
        self.callbacks = tuple(callbacks)
        self.cost_model = cost_model

    @property
    def tasks_(self) -> Sequence[TuneContext]:
        """The tasks, under TVM's name."""
        return self.tasks

    @property
    def database_(self) -> Database | None:
        """The database, under TVM's name."""
        return self.database

    @property
    def measure_callbacks_(self) -> Sequence[MeasureCallback]:
        """The callbacks, under TVM's name."""
        return self.callbacks

    @property
    def cost_model_(self) -> CostModel | None:
        """The cost model, under TVM's name."""
        return self.cost_model

    def engine_options(self) -> dict[str, Any]:
        """Return what of the engine's options this scheduler settles."""
        return {"scheduler": self.policy.value}

    def tune(
        self, tasks: Sequence[TuneContext], task_weights: Sequence[float], max_trials_global: int,
        max_trials_per_task: int, num_trials_per_iter: int, builder: Builder, runner: Runner,
        measure_callbacks: Sequence[MeasureCallback], database: Database | None, cost_model: CostModel | None,
    ) -> None:  # fmt: skip
        """Run what `tune_tasks` runs, with this scheduler.
        Without a database the results are kept in memory, in `database_`. Without a cost model nothing is known of
        candidates beforehand."""
        run_tasks(
            self,
            tasks,
            [float(weight) for weight in task_weights],
            work_dir="",  # no file is written: the database is given
            max_trials_global=max_trials_global,
            max_trials_per_task=max_trials_per_task,
            num_trials_per_iter=num_trials_per_iter,
            builder=builder,
            runner=runner,
            measure_callbacks=measure_callbacks,
            database="memory" if database is None else database,
            cost_model="random" if cost_model is None else cost_model,
        )

    def chooser(self) -> Callable[[Sequence[TaskView], Sequence[TaskView]], int | None] | None:
        """Return what the engine asks for the next task; None leaves it to the policy."""
        return None

    @staticmethod
    def create(kind: str = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """Make the scheduler called "gradient" or "round-robin". Raises TuningError for another name."""
        match kind:
            case "gradient":
                return GradientBased(*args, **kwargs)
            case "round-robin":
                return RoundRobin(*args, **kwargs)
        raise UnknownKindError(f"no task scheduler {kind!r}", hint=f"there are {', '.join(_KINDS)}")


class GradientBased(TaskScheduler):
    """Trials go where the sum of weight times cost is expected to fall most.
    `alpha` weighs the gain over the last `window_size` trials against the gain hoped for. `seed` is ignored, because
    nothing is drawn."""

    def __init__(
        self, *, alpha: float = GradientOptions.alpha, window_size: int = GradientOptions.window, seed: int = -1
    ) -> None:
        super().__init__()
        self.alpha, self.window_size, self.seed = alpha, window_size, seed

    def engine_options(self) -> dict[str, Any]:
        return {**super().engine_options(), "alpha": self.alpha, "window": self.window_size}


class RoundRobin(TaskScheduler):
    """The tasks take turns."""

    policy = Policy.ROUND_ROBIN

    def __init__(self) -> None:
        super().__init__()


class PyTaskScheduler(TaskScheduler):
    """Base of schedulers of your own: override `next_task_id`, which is asked before each trial."""

    def __init__(self) -> None:
        super().__init__()

    def next_task_id(self) -> int:
        """Return the number of the task that gets the next trial; -1 leaves the choice to the others' turns."""
        return -1

    def chooser(self) -> Callable[[Sequence[TaskView], Sequence[TaskView]], int | None]:
        return self.choose

    def choose(self, able: Sequence[TaskView], everyone: Sequence[TaskView]) -> int | None:
        """Return the task that `next_task_id` names.
        It is the one with the fewest trials where that cannot be asked."""
        wanted = self.next_task_id()
        if any(task.index == wanted for task in able):
            return wanted
        return min(able, key=lambda task: (task.asked, task.index)).index if able else None
