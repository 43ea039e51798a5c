"""Templates and the tasks made of them."""

from tunefarm.autotvm.task import Task, get_config, template

__all__ = ["Task", "get_config", "template"]
