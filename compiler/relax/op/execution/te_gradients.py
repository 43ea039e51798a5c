"""Gradients of kernels that no operator made: te functions, registered by name.

    @register_te_gradient("scaled_grad")
    def scaled_grad(output_grad, x, factor):
        return te.compute(x.shape, lambda *i: output_grad(*i) * factor)

    bb.emit_te_with_grad(scaled, x, te_grad_name="scaled_grad", te_grad_kwargs={"factor": 3.0})
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from compiler.errors import IRError
from compiler.ir.base import RelaxExpr
from compiler.relax.nodes import Tuple, TupleGetItem, TupleStructInfo, info_of
from compiler.relax.op.core.backward import Backward, Gradients
from compiler.suggest import closest
from compiler.te.tensor import Tensor

TeGradient = Callable[..., Any]
"""`function(gradient, *inputs, **te_grad_kwargs)`: the gradient of each input as a te tensor, None for one without.

`gradient` is a list for kernels of several results. A single tensor stands for a list of one.
"""
FuncT = TypeVar("FuncT", bound=TeGradient)

_REGISTERED: dict[str, TeGradient] = {}


def register_te_gradient(te_grad_name: str, te_grad_func: TeGradient | None = None) -> Any:
    """Register a te function as the gradient `te_grad_name` of kernels.

    Without a function, return a decorator that does. Raises IRError for a name that another function has.
    """

    def register(function: FuncT) -> FuncT:
        if _REGISTERED.get(te_grad_name, function) is not function:
            raise IRError(f"the te gradient {te_grad_name!r} is registered already")
        _REGISTERED[te_grad_name] = function
        return function

    return register if te_grad_func is None else register(te_grad_func)


def gradient_by_te(use: Backward) -> Gradients:
    """The gradients of `call_tir_with_grad`: kernels of the te function that the call names."""
    name = use.attrs["te_grad_name"]
    function = _REGISTERED.get(name)
    if function is None:
        use.fail(f"no te gradient {name!r} is registered", hint=closest(name, _REGISTERED) or "register_te_gradient")
    inputs = use.fields(1)
    several = isinstance(info_of(use.call), TupleStructInfo)
    kept: list[int] = []

    def kernel(*args: Any, **kwargs: Any) -> list[Tensor]:
        given = function(*args, **kwargs)
        made = list(given) if isinstance(given, list | tuple) else [given]
        if len(made) != len(inputs):
            use.fail(f"the te gradient {name} gives {len(made)} tensors for {len(inputs)} inputs")
        kept[:] = [place for place, item in enumerate(made) if item is not None]
        return [made[place] for place in kept]

    options = {**use.attrs["te_grad_kwargs"], "primfunc_name_hint": name}
    result = use.te(kernel, use.grads if several else use.grad, *inputs, **options)
    found: list[RelaxExpr | None] = [None] * len(inputs)
    for number, place in enumerate(kept):
        found[place] = use.builder.emit(TupleGetItem(result, number))
    return None, Tuple(tuple([use.zeros_like(x) if g is None else g for x, g in zip(inputs, found)])), *_rest(use)


def _rest(use: Backward) -> list[None]:
    return [None] * (len(use.call.args) - 2)
