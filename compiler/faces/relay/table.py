"""The table of Relay's operators.

Each is one function, its signature Relay's, its body what it is in relax.

A parameter whose annotation is `In` is an expression, `Ins` several of them; all others are attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from compiler.errors import ArgumentError
from compiler.faces.relay.nodes import Attrs, Call, Tuple, TupleWrapper, as_expr, relay_op

In = Any
"""An expression; in a body, the relax expression that it became."""
Ins = Any
"""Several expressions."""

Body = TypeVar("Body", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class RelayOperator:
    """An operator: its name, its parameters, and what it becomes in relax."""

    name: str
    signature: inspect.Signature
    inputs: tuple[str, ...]
    several: str | None
    lower: Callable[..., Any]
    results: Callable[..., int | None]
    make: Callable[..., Any]


OPERATORS: dict[str, RelayOperator] = {}


def operator(name: str, results: int | Callable[..., int | None] | None = None) -> Callable[[Body], Body]:
    """Enter the operator `name` in the table.
    `results` is the number of values of an operator that gives a tuple, or a function of the operator's attributes."""

    def enter(body: Body) -> Body:
        signature = inspect.signature(body)
        kinds = {key: param.annotation for key, param in signature.parameters.items()}
        inputs = tuple(key for key, kind in kinds.items() if kind == "In")
        several = next((key for key, kind in kinds.items() if kind == "Ins"), None)
        count: Callable[..., int | None] = results if callable(results) else partial(_fixed, results)

        def make(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"relay.{name}: {error}") from None
            bound.apply_defaults()
            given = bound.arguments
            if several is not None:
                items = given[several]
                exprs = [*items] if isinstance(items, Sequence | TupleWrapper) else [items]
                values = [as_expr(exprs[0]) if len(exprs) == 1 else Tuple(tuple(exprs))]
            else:
                values = [as_expr(given[key]) for key in inputs if given[key] is not None]
                _check_gap(name, inputs, given)
            rest = {key: value for key, value in given.items() if key not in inputs and key != several}
            call = Call(relay_op(name), values, Attrs(rest))
            number = count(**rest)
            return call if number is None else TupleWrapper(call, number)

        make.__name__ = make.__qualname__ = name.rpartition(".")[2]
        make.__doc__ = body.__doc__
        make.__signature__ = signature.replace(return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
        OPERATORS[name] = RelayOperator(name, signature, inputs, several, body, count, make)
        return body

    return enter


def _fixed(count: int | None, **attrs: Any) -> int | None:
    return count


def _check_gap(name: str, inputs: Sequence[str], given: dict[str, Any]) -> None:
    """Check that a call leaves out optional arguments only from the end."""
    missing = [key for key in inputs if given[key] is None]
    if missing and any(given[key] is not None for key in inputs[inputs.index(missing[0]) :]):
        raise ArgumentError(f"relay.{name}: {missing[0]} is left out, and what comes behind it is not")


def lower(call: Call, args: Sequence[Any]) -> Any:
    """Return what a call of an operator is in relax, given its arguments there."""
    known = OPERATORS.get(call.op.name)
    if known is None:
        raise ArgumentError(f"Relay's operator {call.op.name} is not carried over", hint="write it in relax")
    if known.several is not None:
        return known.lower(args[0], **call.attrs)
    return known.lower(**dict(zip(known.inputs, args)), **call.attrs)
