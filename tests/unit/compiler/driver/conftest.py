"""Fixtures of the driver's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tunefarm as tvm
from compiler.runtime.core.registry import remove_global_func


@pytest.fixture
def packed() -> Iterator[str]:
    """The name of a function of the runtime that adds 1."""
    name = "test.driver.plus_one"
    tvm.register_func(name, lambda x: tvm.nd.array(x.numpy() + 1))
    yield name
    remove_global_func(name)
