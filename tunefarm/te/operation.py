"""How operations are made."""

from compiler.te.extern import extern
from compiler.te.operation import compute, const, size_var, thread_axis, var
from compiler.te.reduction import reduce_axis
from compiler.te.scan import scan
from compiler.te.tensor import placeholder
from tunefarm.te.prim_func import create_prim_func

__all__ = [
    "compute", "const", "create_prim_func", "extern", "placeholder", "reduce_axis", "scan", "size_var", "thread_axis",
    "var",
]  # fmt: skip
