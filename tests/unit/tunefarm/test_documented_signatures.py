"""Names take the parameters that Apache TVM's documents give them, in that order, with those defaults."""

from __future__ import annotations

import pytest

from tests.kit.tvm_names.documented import Documented, documented, expected, parameters

ROWS = documented()


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_signature_is_the_documented_one(row: Documented) -> None:
    assert parameters(row.name) == expected(row)


def test_what_is_more_here_needs_no_value() -> None:
    for row in ROWS:
        for part in filter(None, row.more.split(", ")):
            assert "=" in part or part.startswith("*"), row
