"""Templates, tasks, config spaces and dispatch contexts."""

from tunefarm.autotvm.task import dispatcher, space
from tunefarm.autotvm.task.dispatcher import (
    ApplyConfig,
    ApplyHistoryBest,
    DispatchContext,
    FallbackContext,
    apply_history_best,
)
from tunefarm.autotvm.task.space import ConfigEntity, ConfigSpace, FallbackConfigEntity
from tunefarm.compatibility import refuse_other_names
from tuner.faces.autotvm.task import Task, args_to_workload, create, get_config, template
from tuner.faces.common.arguments import deserialize_args, serialize_args

__all__ = [
    "ApplyConfig", "ApplyHistoryBest", "ConfigEntity", "ConfigSpace", "DispatchContext", "FallbackConfigEntity",
    "FallbackContext", "Task", "apply_history_best", "args_to_workload", "create", "deserialize_args", "dispatcher",
    "get_config", "serialize_args", "space", "template",
]  # fmt: skip

refuse_other_names(__name__)
