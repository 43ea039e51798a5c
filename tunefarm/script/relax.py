"""`from tunefarm.script import relax as R`: the names of graph functions in scripts.

Operators and annotations (`R.add(x, y)`, `R.Tensor((2, 3), "float32")`) build graphs anywhere. `R.dataflow`,
`R.output`, `R.func_attr`, `R.match_cast`, `R.emit` and `R.emit_te` mean something only in a function under
`@R.function`, which is read, not run.
"""

import typing as _typing

from compiler.errors import IRError as _IRError
from compiler.relax import op as _op
from compiler.relax.dpl.rewriters import rewriter as rewriter
from compiler.relax.nodes import (
    DataTypeImm,
    ExternFunc,
    PrimStructInfo,
    PrimValue,
    ShapeStructInfo,
    StringImm,
    TensorStructInfo,
)
from compiler.relax.op import *  # noqa: F403
from compiler.relax.op.core.registry import OPERATORS as _OPERATORS
from compiler.relax.text import vocabulary as _vocabulary
from compiler.relax.text.parser import relax_function as function
from compiler.relax.text.vocabulary import call_packed as call_packed
from compiler.relax.text.vocabulary import callable_info as Callable
from compiler.relax.text.vocabulary import constant as const
from compiler.relax.text.vocabulary import object_info as Object
from compiler.relax.text.vocabulary import shape as shape
from compiler.relax.text.vocabulary import tuple_ as tuple
from compiler.relax.text.vocabulary import tuple_info as Tuple

Any = Object
dtype = DataTypeImm
prim_value = PrimValue
str = StringImm
nn = _op.nn

__all__ = [
    "Any", "Callable", "ExternFunc", "Object", "Prim", "Shape", "Tensor", "Tuple", "call_packed", "const", "dataflow",
    "dtype", "emit", "emit_te", "func_attr", "func_ret_struct_info", "function", "match_cast", "nn", "output",
    "prim_value", "rewriter", "shape", "str", "tuple", *_op.__all__,
]  # fmt: skip
__script_namespace__ = "relax"


def _named(value: _typing.Any) -> bool:
    """Whether dimensions are named by strings."""
    items = value if type(value).__name__ in ("tuple", "list") else (value,)
    return any(type(item).__name__ == "str" for item in items)


def Tensor(
    shape: _typing.Any = None, dtype: _typing.Any = None, vdevice: _typing.Any = None, ndim: int = -1
) -> TensorStructInfo:
    """A tensor.
    Dimensions named by strings have a meaning in scripts only; elsewhere just their number is known."""
    if type(shape).__name__ in ("tuple", "list") and _named(shape):
        shape, dtype, ndim = None, dtype or "float32", len(shape)
    return _vocabulary.tensor_info(shape, dtype, vdevice, ndim)


def Shape(values: _typing.Any = None, ndim: int = -1) -> ShapeStructInfo:
    """A shape; for dimensions named by strings see `Tensor`."""
    if values is not None and _named(values):
        values, ndim = None, len(values)
    return _vocabulary.shape_info(values, ndim)


def Prim(dtype: _typing.Any = None, value: _typing.Any = None) -> PrimStructInfo:
    """A scalar; a value named by a string has a meaning in scripts only."""
    if _named(value):
        dtype, value = dtype or "int64", None
    return _vocabulary.prim_info(dtype, value)


def _only_in_a_script(name: _typing.Any) -> _typing.Any:
    def refuse(*args: _typing.Any, **kwargs: _typing.Any) -> _typing.NoReturn:
        raise _IRError(f"R.{name} means something only in a function under @R.function")

    return refuse


dataflow = _only_in_a_script("dataflow")
emit = _only_in_a_script("emit")
emit_te = _only_in_a_script("emit_te")
func_attr = _only_in_a_script("func_attr")
func_ret_struct_info = _only_in_a_script("func_ret_struct_info")
match_cast = _only_in_a_script("match_cast")
output = _only_in_a_script("output")


def __getattr__(name: _typing.Any) -> _typing.Any:
    if any(known.startswith(f"relax.{name}.") for known in _OPERATORS):  # a group of operators, as nn
        return getattr(_op, name)
    raise AttributeError(f"TVMScript has no R.{name}")


def __dir__() -> list[_typing.Any]:
    return sorted(__all__)
