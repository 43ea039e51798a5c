"""Functions that tests run in the worker processes of `contrib.popen_pool`."""

from __future__ import annotations

import time
from typing import Any

from compiler.runtime.core.registry import get_global_func, register_func

__all__ = [
    "after_initializer", "call_cpp_ffi", "call_cpp_py_ffi", "call_py_ffi", "fast_summation", "initializer",
    "register_ffi", "slow_summation", "timeout_job",
]  # fmt: skip

_state: dict[str, Any] = {"initialized": False, "value": 0}


def initializer(test_global_state_1: Any, test_global_state_2: Any, test_global_state_3: Any) -> None:
    """Keep three values in the worker."""
    _state["kept"] = (test_global_state_1, test_global_state_2, test_global_state_3)


def after_initializer() -> tuple[Any, Any, Any]:
    """The values that `initializer` kept in this worker."""
    kept: tuple[Any, Any, Any] = _state["kept"]
    return kept


def register_ffi() -> None:
    """Register the function "testing.nested_identity" in the worker."""
    register_func("testing.nested_identity", lambda value: value, override=True)


def call_py_ffi(arg: Any) -> Any:
    """Call the function that `register_ffi` registered."""
    return get_global_func("testing.nested_identity")(arg)


def call_cpp_ffi(arg: Any) -> Any:
    """Hand a value through the registry's `testing.echo`."""
    return get_global_func("testing.echo")(arg)


def call_cpp_py_ffi(arg: Any) -> Any:
    """Hand a value through both functions."""
    return call_cpp_ffi(call_py_ffi(arg))


def fast_summation(n: int) -> int:
    """The sum of the integers below `n`, from the formula."""
    return n * (n - 1) // 2


def slow_summation(n: int) -> int:
    """The sum of the integers up to `n`, one at a time."""
    return sum(range(n + 1))


def timeout_job(n: float) -> None:
    """Sleep for `n` seconds and a half."""
    time.sleep(n * 1.5)
