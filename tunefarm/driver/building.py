"""`build` with all the argument orders that programs have for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.driver import build as _driver
from compiler.driver.build import DEFAULT_NAME
from compiler.runtime.core.module import Module
from compiler.te.tensor import Tensor
from compiler.tir.nodes import Buffer

__all__ = ["build"]

Binds = Mapping[Tensor, Buffer]


def build(
    inputs: Any, args: Sequence[Any] | None = None, target: Any = None, target_host: Any = None, runtime: Any = None,
    name: str | Binds = DEFAULT_NAME, binds: Binds | None = None,
) -> Module:  # fmt: skip
    """Compile and load into this process: see `compiler.driver.build.build`.

    TVM has had two argument orders: with `runtime` before `name`, and without it. So a string given for `runtime` is
    the name, and a mapping given for `name` is `binds`. A `relay.backend.Runtime` is otherwise ignored: modules run in
    this runtime, and a system library is asked for in the target ("llvm -system-lib").
    """
    if isinstance(runtime, str):
        if not isinstance(name, str):
            binds = name
        elif name != DEFAULT_NAME:
            raise _driver.InputError(f"two names are given: {runtime!r} and {name!r}")
        name, runtime = runtime, None
    if not isinstance(name, str):
        raise _driver.InputError(f"the name of a function is a string, not a {type(name).__name__}")
    return _driver.build(inputs, args, target, target_host, runtime, name, binds)
