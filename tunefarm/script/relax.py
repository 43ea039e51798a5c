"""`from tunefarm.script import relax as R`: the names of graph functions in scripts.

Operators and annotations (`R.add(x, y)`, `R.Tensor((2, 3), "float32")`) build graphs anywhere. `R.dataflow`,
`R.output`, `R.func_attr` and `R.match_cast` mean something only in a function under `@R.function`, which is read, not
run.
"""

from typing import Any, NoReturn

from compiler.errors import IRError
from compiler.relax.nodes import ShapeStructInfo, TensorStructInfo
from compiler.relax.text import vocabulary
from compiler.relax.text.parser import relax_function as function

__all__ = ["Shape", "Tensor", "function"]
__script_namespace__ = "relax"

_STATEMENTS = frozenset({"dataflow", "func_attr", "match_cast", "output"})


def Tensor(shape: Any = None, dtype: str | None = None, vdevice: Any = None, ndim: int = -1) -> TensorStructInfo:
    """A tensor. Dimensions named by strings have a meaning in scripts only; elsewhere just their number is known."""
    if isinstance(shape, tuple | list) and any(isinstance(size, str) for size in shape):
        shape, dtype, ndim = None, dtype or "float32", len(shape)
    return vocabulary.tensor_info(shape, dtype, vdevice, ndim)


def Shape(values: Any = None, ndim: int = -1) -> ShapeStructInfo:
    """A shape; for dimensions named by strings see `Tensor`."""
    if values is not None and any(isinstance(size, str) for size in values):
        values, ndim = None, len(values)
    return vocabulary.shape_info(values, ndim)


def __getattr__(name: str) -> Any:
    if name in _STATEMENTS:
        return _only_in_a_script(name)
    found = None if name.startswith("_") else vocabulary.lookup(name)
    if found is not None:
        return found
    group = {known.partition(".")[2]: known for known in vocabulary.names() if known.startswith(f"{name}.")}
    if group:
        return _Group(name)
    raise AttributeError(f"TVMScript has no R.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *(name.partition(".")[0] for name in vocabulary.names()), *_STATEMENTS})


class _Group:
    """Operators with a common first name, as `R.nn`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = None if name.startswith("_") else vocabulary.lookup(f"{self._name}.{name}")
        if found is None:
            raise AttributeError(f"TVMScript has no R.{self._name}.{name}")
        return found


def _only_in_a_script(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise IRError(f"R.{name} means something only in a function under @R.function")

    return refuse
