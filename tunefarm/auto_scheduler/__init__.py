"""auto_scheduler: te computations tuned without a template, by the engine."""

from tunefarm.auto_scheduler import (
    compute_dag,
    dispatcher,
    loop_state,
    measure,
    measure_record,
    search_policy,
    search_task,
    task_scheduler,
    workload_registry,
)
from tunefarm.auto_scheduler.measure import RPCRunner
from tunefarm.compatibility import refuse_other_names
from tuner.faces.auto_scheduler import task_actions as _task_actions  # noqa: F401  (for SearchTask.tune)
from tuner.faces.auto_scheduler.compute_dag import ComputeDAG
from tuner.faces.auto_scheduler.cost_model import RandomModel, XGBModel
from tuner.faces.auto_scheduler.dispatcher import ApplyHistoryBest, DispatchContext
from tuner.faces.auto_scheduler.graph_tasks import extract_tasks
from tuner.faces.auto_scheduler.hardware import HardwareParams
from tuner.faces.auto_scheduler.measure_callback import MeasureCallback, PythonBasedMeasureCallback
from tuner.faces.auto_scheduler.measure_methods import LocalBuilder, LocalRPCMeasureContext, LocalRunner
from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
from tuner.faces.auto_scheduler.record import RecordReader, RecordToFile, load_best_record, load_records, save_records
from tuner.faces.auto_scheduler.search_policy import EmptyPolicy, PreloadMeasuredStates, SketchPolicy
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.state import State
from tuner.faces.auto_scheduler.task_scheduler import TaskScheduler
from tuner.faces.auto_scheduler.tuning_options import TuningOptions
from tuner.faces.auto_scheduler.workload_registry import make_workload_key, register_workload
from tuner.faces.common.measure_error import MeasureErrorNo

__all__ = [
    "ApplyHistoryBest", "ComputeDAG", "DispatchContext", "EmptyPolicy", "HardwareParams", "LocalBuilder",
    "LocalRPCMeasureContext", "LocalRunner", "MeasureCallback", "MeasureErrorNo", "MeasureInput", "MeasureResult",
    "PreloadMeasuredStates", "PythonBasedMeasureCallback", "RPCRunner", "RandomModel", "RecordReader", "RecordToFile",
    "SearchTask", "SketchPolicy", "State", "TaskScheduler", "TuningOptions", "XGBModel", "compute_dag", "dispatcher",
    "extract_tasks", "load_best_record", "load_records", "loop_state", "make_workload_key", "measure", "measure_record",
    "register_workload", "save_records", "search_policy", "search_task", "task_scheduler", "workload_registry",
]  # fmt: skip

refuse_other_names(__name__)
