"""The names of a hybrid function when Python runs it."""

from compiler.faces.hybrid.runtime import (
    allocate,
    bind,
    ceil_div,
    inf,
    likely,
    max_num_threads,
    ninf,
    popcount,
    rsqrt,
    sigmoid,
)

__all__ = ["allocate", "bind", "ceil_div", "inf", "likely", "max_num_threads", "ninf", "popcount", "rsqrt", "sigmoid"]
