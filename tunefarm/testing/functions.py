"""Functions that tests pass through the registry, and checks of numbers and expressions."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compiler.errors import TunefarmError
from compiler.runtime.core.device import Device, device
from compiler.runtime.core.packed import PackedFunc, packed
from compiler.runtime.core.registry import register_func
from compiler.tir.nodes import PrimExpr, Range, Var
from compiler.tir.stmt_functor import substitute
from tunefarm.arith import Analyzer
from tunefarm.autotvm.utils import get_const_int

__all__ = [
    "IS_IN_CI", "ErrorTest", "assert_prim_expr_equal", "check_bool_expr_is_true", "check_numerical_grads",
    "device_test", "identity_cpp", "nop", "object_use_count", "test_check_eq_callback", "test_raise_error_callback",
    "test_wrap_callback",
]  # fmt: skip

IS_IN_CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")
"""Whether the variable `CI` says that this is a run of continuous integration."""


def nop(*args: Any) -> None:
    """Take anything and do nothing."""


def identity_cpp(x: Any) -> Any:
    """Return `x` as a packed function gets it."""
    return packed(lambda value: value)(x)


def device_test(dev: Device, tid: int | str, did: int) -> Device:
    """Return the device as a packed function gets it. Raises TunefarmError for another type or number."""
    found: Device = packed(lambda value: value)(dev)
    if found != device(tid, did):
        raise TunefarmError(f"Check failed: {found} is not {device(tid, did)}")
    return found


def object_use_count(obj: Any) -> int:
    """How many references there are to an object, apart from those of this call."""
    return sys.getrefcount(obj) - 2


def test_wrap_callback(cb: Callable[[], Any]) -> PackedFunc:
    """A packed function that calls `cb`."""
    return packed(lambda: cb())


def test_raise_error_callback(msg: str) -> PackedFunc:
    """A packed function that raises an error; a message such as "ValueError: no" names its class."""

    def fail() -> None:
        raise _named_error(msg)

    return packed(fail)


def test_check_eq_callback(msg: str) -> PackedFunc:
    """A packed function that raises an error unless its two arguments are equal."""

    def check(x: int, y: int) -> None:
        if x != y:
            raise TunefarmError(f"Check failed: x == y ({x} vs. {y}) : {msg}")

    return packed(check)


def ErrorTest(x: int, y: int) -> int:
    """`x` where it is the next after `y`.
    Raises TunefarmError for equal numbers, and for a `y` that is greater."""
    if x == y:
        raise TunefarmError(f"Check failed: x != y ({x} vs. {y}) : expect x!=y")
    if x - 1 != y:
        raise TunefarmError("expect x=y+1")
    return x


def _named_error(msg: str) -> Exception:
    import builtins

    from tunefarm import error

    name, colon, _ = msg.partition(":")
    found = getattr(error, name, None) or getattr(builtins, name, None)
    is_error = bool(colon) and isinstance(found, type) and issubclass(found, Exception)
    return found(msg) if is_error else TunefarmError(msg)  # type: ignore[misc]


for _function in (nop, test_wrap_callback, test_raise_error_callback, test_check_eq_callback, ErrorTest):
    register_func(f"testing.{_function.__name__}", _function, override=True)
register_func("testing.echo", lambda value: value, override=True)
register_func("testing.identity_cpp", lambda value: value, override=True)


# ---------------------------------------------------------------------------- expressions


def assert_prim_expr_equal(lhs: PrimExpr, rhs: PrimExpr) -> None:
    """Raise ValueError unless two expressions are shown to be equal."""
    if not Analyzer().can_prove_equal(lhs, rhs):
        raise ValueError(f"{lhs} and {rhs} are not equal")


def check_bool_expr_is_true(bool_expr: Any, vranges: Mapping[Var, Range], cond: Any = None) -> None:
    """Try a condition at every point of the variables' ranges, where `cond` holds. Raises AssertionError."""
    analyzer = Analyzer()
    spans = [(var, get_const_int(r.min), get_const_int(r.extent)) for var, r in vranges.items()]
    for point in np.ndindex(*(extent for _, _, extent in spans)):
        values: dict[Any, Any] = {var: low + int(at) for (var, low, _), at in zip(spans, point)}
        if cond is not None and not _is_true(analyzer, cond, values):
            continue
        if not _is_true(analyzer, bool_expr, values):
            shown = ", ".join(f"{var.name} = {value}" for var, value in values.items())
            raise AssertionError(f"The expression {bool_expr} is not true at {shown}")


def _is_true(analyzer: Analyzer, condition: Any, values: Mapping[Any, Any]) -> bool:
    given: Any = substitute(condition, values)
    return analyzer.can_prove(given)


# ---------------------------------------------------------------------------- gradients


def check_numerical_grads(
    function: Callable[..., Any], input_values: Mapping[str, Any] | Sequence[Any],
    grad_values: Mapping[str, Any] | Sequence[Any], function_value: float | None = None, delta: float = 1e-3,
    atol: float = 1e-2, rtol: float = 0.1,
) -> None:  # fmt: skip
    """Compare gradients with differences of `function`, which returns a number. Raises AssertionError.

    Inputs and gradients are lists, or both mappings by name; the function takes them accordingly.
    """
    by_name = isinstance(input_values, Mapping)
    names = list(input_values) if by_name else list(range(len(input_values)))
    values: dict[Any, Any] = {name: np.asarray(input_values[name], dtype=float) for name in names}  # type: ignore[index]

    def value() -> float:
        found = function(**values) if by_name else function(*values.values())
        return float(np.asarray(found))

    for name in names:
        given = np.asarray(grad_values[name])  # type: ignore[index]
        wanted = np.zeros(values[name].shape)
        for at in np.ndindex(*wanted.shape):
            kept = values[name][at]
            ends = []
            for step in (delta, -delta):
                values[name][at] = kept + step
                ends.append(value())
            values[name][at] = kept
            wanted[at] = (ends[0] - ends[1]) / (2 * delta)
        distance = float(np.sqrt(np.sum((wanted - given) ** 2)))
        allowed = atol * np.sqrt(wanted.size) + rtol * float(np.sqrt(np.sum(wanted**2)))
        if distance > allowed:
            far = f"{distance:.3g} from the differences, allowed {allowed:.3g}"
            raise AssertionError(f"the gradient of {name!r} is {far}")
