"""Looking at values while a model runs: only in modules exported with `debug=True`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from compiler.errors import IRError
from compiler.frontend.nn.effects import IOEffect
from compiler.frontend.nn.values import Object, Tensor, current_builder
from compiler.relax.nodes import ObjectStructInfo, convert_to_expr
from compiler.relax.op import call_pure_packed

_IO: ContextVar[IOEffect | None] = ContextVar("io", default=None)


@contextmanager
def printing_to(io: IOEffect | None) -> Iterator[None]:
    """Order `print_` and `debug_func` by the state of `io`."""
    token = _IO.set(io)
    try:
        yield
    finally:
        _IO.reset(token)


def debug_func(name: str, *args: Any) -> None:
    """Call a function of the runtime for its effect. It gets the state of input and output first.

    Raises IRError in a module that is exported without `debug=True`.
    """
    io = _IO.get()
    if io is None or io.effect is None:
        raise IRError(f"{name} is called in a module exported without debug", hint="export_tvm(spec=..., debug=True)")
    exprs = [convert_to_expr(arg._expr if isinstance(arg, Tensor | Object) else arg) for arg in args]
    call = call_pure_packed(name, io.effect, *exprs, sinfo_args=ObjectStructInfo())
    io.effect = current_builder().emit(call, "io")


def print_(value: Tensor) -> None:
    """Print a tensor when the model runs."""
    debug_func("vm.builtin.debug_print", value)
