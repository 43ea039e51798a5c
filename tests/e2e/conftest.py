"""What several of these tests start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_farm import CliFarm, cli_farm


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[CliFarm]:
    """The command line in a folder of its own."""
    with cli_farm(tmp_path) as running:
        yield running
