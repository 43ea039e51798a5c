"""Functions that tests call on servers: importing this module registers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from compiler.runtime.core import registry
from compiler.runtime.core.ndarray import NDArray, array

__all__: list[str] = []


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _registered(name: str) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        registry.register_func(f"rpc.test.{name}", function, override=True)
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
def _adder(x: int) -> Any:
    return lambda y: x + y


@_registered("remote_return_nd")
def _returner(mode: str) -> Any:
    """A function that gives an array: the same at each call in mode "ref"."""
    first = array(np.zeros((2,)))
    return lambda: first if mode == "ref" else array(np.zeros((2,)))
