"""Services that several of these tests start."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.cli.farm import CliFarm, cli_farm


@pytest.fixture
def farm(tmp_path: Path, sqlite_template: Path) -> Iterator[CliFarm]:
    """The command line in a folder of its own, with an empty record store: that commands make theirs is shown where
    they are processes that know nothing (e2e/cli/test_cold.py)."""
    with cli_farm(tmp_path) as running:
        shutil.copyfile(sqlite_template, running.db)
        yield running
