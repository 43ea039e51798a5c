"""Functions that programs try a server with: `rpc.test.addone` and a few more.

Importing this module registers them.

An executor imports it when the first of them is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from compiler.errors import ArgumentError
from compiler.runtime.core import registry
from compiler.runtime.core.ndarray import NDArray, array

PREFIX = "rpc.test."
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _registered(name: str) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        registry.register_func(PREFIX + name, function, override=True)
        return function

    return register


@_registered("addone")
def _add_one(x: int) -> int:
    return x + 1


@_registered("strcat")
def _concatenate(name: str, x: int) -> str:
    return f"{name}:{x}"


@_registered("except")
def _fail(name: str) -> None:
    raise ValueError(f"{name}")


@_registered("runtime_str_concat")
def _joined(x: str, y: str) -> str:
    return x + y


@_registered("remote_array_func")
def _check_ones(y: NDArray) -> None:
    np.testing.assert_equal(y.numpy(), np.ones((3, 4)))


@_registered("add_to_lhs")
def _adder(x: int) -> Callable[[int], int]:
    return lambda y: x + y


@_registered("remote_return_nd")
def _use_of_an_array(name: str) -> Callable[..., Any]:
    """A function for trying out arrays: it returns an array of its own lifetime, or describes one."""
    kept = array(np.zeros(10, "float32"))
    uses: dict[str, Callable[..., Any]] = {
        "get_arr": lambda: kept,
        "ref_count": lambda: sys.getrefcount(kept) - 1,
        "get_elem": lambda index: kept.numpy()[index],
        "get_arr_elem": lambda given, index: given.numpy()[index],
    }
    if name not in uses:
        raise ArgumentError(f"there is no use {name!r}", hint=f"known: {', '.join(uses)}")
    return uses[name]
