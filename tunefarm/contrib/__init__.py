"""Help around the compiler: linkers, temporary folders, what GPUs can do."""

from tunefarm.compatibility import refuse_other_names
from tunefarm.contrib import cc as cc
from tunefarm.contrib import debugger as debugger
from tunefarm.contrib import graph_executor as graph_executor
from tunefarm.contrib import nvcc as nvcc
from tunefarm.contrib import tar as tar
from tunefarm.contrib import utils as utils

refuse_other_names(__name__)

__all__ = ["cc", "debugger", "graph_executor", "nvcc", "tar", "utils"]
