"""autotvm: templates with knobs, tuned by the engine."""

from tunefarm.autotvm import callback, database, env, measure, record, task, tuner
from tunefarm.autotvm.env import GLOBAL_SCOPE
from tunefarm.autotvm.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    RPCRunner,
    create_measure_batch,
    measure_option,
)
from tunefarm.autotvm.record import load_from_file
from tunefarm.autotvm.task import (
    ApplyHistoryBest,
    ConfigEntity,
    ConfigSpace,
    DispatchContext,
    FallbackContext,
    Task,
    apply_history_best,
    get_config,
    template,
)
from tunefarm.autotvm.task.space import FallbackConfigEntity, InstantiationError
from tunefarm.autotvm.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tunefarm.compatibility import refuse_other_names

__all__ = [
    "GLOBAL_SCOPE", "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "DispatchContext", "DropletTuner",
    "FallbackConfigEntity", "FallbackContext", "GATuner", "GridSearchTuner", "InstantiationError", "LocalBuilder",
    "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult", "RPCRunner", "RandomTuner", "Task", "XGBTuner",
    "apply_history_best", "callback", "create_measure_batch", "database", "env", "get_config", "load_from_file",
    "measure", "measure_option", "record", "task", "template", "tuner",
]  # fmt: skip

refuse_other_names(__name__)
