"""The runner of this machine, and what stands for functions that it is not given."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.hooks import EvaluatorConfig
from tuner.faces.meta_schedule.hooks import alloc_argument as default_alloc_argument
from tuner.faces.meta_schedule.hooks import run_evaluator as default_run_evaluator
from tuner.faces.meta_schedule.runner import LocalRunner

__all__ = ["EvaluatorConfig", "LocalRunner", "default_alloc_argument", "default_cleanup", "default_run_evaluator"]


def default_cleanup() -> None:
    """Do nothing: the process ends after a candidate."""


refuse_other_names(__name__)
