"""A supervisor's state with a warm executor, and one with Ann's session."""

from __future__ import annotations

import pytest

from tests.kit.farm.supervisor_script import Box, warm_box, with_ann


@pytest.fixture
def box() -> Box:
    return warm_box()


@pytest.fixture
def ann(box: Box) -> Box:
    return with_ann(box)
