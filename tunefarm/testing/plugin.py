"""A plugin for a `conftest.py` of tests written for Apache TVM.

`pytest_plugins = ["tvm.testing.plugin"]`.

A test that takes `target` and `dev` runs once for each target that this machine runs.
"""

from __future__ import annotations

from typing import Any

import pytest

from compiler.runtime.core.device import Device, device
from compiler.target.target import Target
from tunefarm.testing import enabled_targets

__all__ = ["MARKERS", "dev", "pytest_configure", "pytest_generate_tests"]

MARKERS = {
    "gpu": "needs a GPU",
    "tensorcore": "needs tensor cores",
    "cuda": "needs an NVIDIA GPU",
    "opencl": "needs OpenCL",
    "rocm": "needs an AMD GPU",
    "vulkan": "needs Vulkan",
    "metal": "needs an Apple GPU",
    "llvm": "needs LLVM",
    "slow": "takes long",
}
"""The marks that tests have, and what they say."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a `target` for each target that this machine runs.
    It must not say values of its own."""
    if "target" not in metafunc.fixturenames or _is_given(metafunc, "target"):
        return
    metafunc.parametrize("target", [name for name, _ in enabled_targets()], scope="session")


def _is_given(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether a mark or a fixture of the test gives the argument."""
    given = (mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    names = {part.strip() for text in given for part in (text.split(",") if isinstance(text, str) else text)}
    return name in names or name in metafunc._arg2fixturedefs


@pytest.fixture
def dev(target: Any) -> Device:
    """The device that runs code for the test's `target`."""
    return device(Target(target).kind.name, 0)
