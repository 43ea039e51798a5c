"""Help around the compiler: linkers, temporary folders, what GPUs can do."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tunefarm.contrib import cc as cc
from tunefarm.contrib import debugger as debugger
from tunefarm.contrib import graph_executor as graph_executor
from tunefarm.contrib import nvcc as nvcc
from tunefarm.contrib import tar as tar
from tunefarm.contrib import utils as utils

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)

__all__ = ["cc", "debugger", "graph_executor", "nvcc", "tar", "utils"]
