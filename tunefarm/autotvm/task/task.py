"""Templates and the tasks made of them."""

from tunefarm.autotvm.task import Task, get_config, template
from tuner.faces.autotvm.task import compute_flop

__all__ = ["Task", "compute_flop", "get_config", "template"]
