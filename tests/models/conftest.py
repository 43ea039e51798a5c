"""Whole models: `make test-models` runs them. They need PyTorch, torchvision and transformers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

NEEDED = ("torch", "torchvision", "transformers")
collect_ignore_glob = [] if all(map(importlib.util.find_spec, NEEDED)) else ["test_*.py"]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Where slow tests are left out, do not even import the libraries that these need."""
    return True if config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take minutes run in a target of their own."""
    here = f"{Path(__file__).parent}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.slow)
