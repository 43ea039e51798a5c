"""meta_schedule: tune any function in spaces made by rules, with the results in a database."""

from tunefarm.compatibility import refuse_other_names
from tunefarm.meta_schedule import (
    arg_info,
    builder,
    cost_model,
    database,
    measure_callback,
    mutator,
    postproc,
    relax_integration,
    relay_integration,
    runner,
    schedule_rule,
    search_strategy,
    space_generator,
    task_scheduler,
    testing,
    tir_integration,
    tune_context,
    utils,
)
from tunefarm.meta_schedule.utils import derived_object, is_meta_schedule_enabled
from tuner.faces.meta_schedule.builder import Builder
from tuner.faces.meta_schedule.cost_models.cost_model import CostModel
from tuner.faces.meta_schedule.cost_models.feature_extractor import FeatureExtractor
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.measure_callback import MeasureCallback
from tuner.faces.meta_schedule.profiler import Profiler
from tuner.faces.meta_schedule.record import MeasureCandidate
from tuner.faces.meta_schedule.relax_integration import ExtractedTask, compile_relax, extract_tasks, tune_relax
from tuner.faces.meta_schedule.runner import Runner
from tuner.faces.meta_schedule.search_strategy import SearchStrategy
from tuner.faces.meta_schedule.spaces.mutator import Mutator
from tuner.faces.meta_schedule.spaces.postproc import Postproc
from tuner.faces.meta_schedule.spaces.schedule_rule import ScheduleRule
from tuner.faces.meta_schedule.spaces.space_generator import SpaceGenerator
from tuner.faces.meta_schedule.task_scheduler import TaskScheduler
from tuner.faces.meta_schedule.tune import tune_tasks, tune_tir
from tuner.faces.meta_schedule.tune_context import TuneContext

__all__ = [
    "Builder", "CostModel", "Database", "ExtractedTask", "FeatureExtractor", "MeasureCallback", "MeasureCandidate",
    "Mutator", "Postproc", "Profiler", "Runner", "ScheduleRule", "SearchStrategy", "SpaceGenerator", "TaskScheduler",
    "TuneContext", "arg_info", "builder", "compile_relax", "cost_model", "database", "derived_object", "extract_tasks",
    "feature_extractor", "is_meta_schedule_enabled", "measure_callback", "mutator", "postproc", "profiler",
    "relax_integration", "relay_integration", "runner", "schedule_rule", "search_strategy", "space_generator",
    "task_scheduler", "testing", "tir_integration", "tune_context", "tune_relax", "tune_tasks", "tune_tir", "utils",
]  # fmt: skip

refuse_other_names(__name__)
