"""docs/security.md names the test that proves each claim: they are all there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.attack.table import PAGE, attacks, defined_in, named_tests
from tests.kit.places import ROOT

ROWS = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]


@pytest.fixture(scope="module")
def places():
    return defined_in(ROOT / "tests")


def test_every_test_that_is_named_exists(places):
    missing = [name for name in named_tests(PAGE.read_text()) if name not in places]
    assert missing == []


def test_every_file_that_is_named_exists():
    for path in re.findall(r"`(tests/[\w/.-]+)`", PAGE.read_text()):
        assert (ROOT / path).exists(), path


def test_tests_are_where_their_table_says(places):
    """A table's last heading may say which file, or folder, its tests are in; a row may say another one."""
    where = ""
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|"):
            where = ""
        elif heading := re.search(r"test in `([\w/.-]+)` \|$", line):
            where = heading[1]
        elif where:
            names, others = named_tests(line), re.findall(r"\(`([\w.]+\.py)`\)", line)
            assert names or line.startswith("|---"), f"no test proves: {line}"
            for name in names:
                files = [str(path.relative_to(ROOT)) for path in places[name]]
                right = [file for file in files if file.startswith((where, "tests/unit/", "tests/contract/"))]
                assert right or others, (name, where)


def test_every_attack_of_the_table_has_its_tests():
    found = attacks(PAGE.read_text())
    assert len(found) > 30
    assert all(row.tests for row in found)
    assert Path(PAGE).name == "security.md"
