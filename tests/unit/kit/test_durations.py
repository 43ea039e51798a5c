"""The order in which test files begin."""

from __future__ import annotations

import json

import pytest

from tests.kit import durations


def test_the_longest_of_each_kind_begin_and_the_kinds_take_turns() -> None:
    seconds = {"e2e/a.py": 30.0, "e2e/b.py": 20.0, "e2e/c.py": 9.0, "unit/a.py": 6.0, "unit/b.py": 5.0, "unit/c.py": 1}
    order = durations.ordered(sorted(seconds), seconds)
    assert [name for name in order if name.startswith("e2e")] == ["e2e/a.py", "e2e/b.py", "e2e/c.py"]
    assert [name for name in order if name.startswith("unit")] == ["unit/a.py", "unit/b.py", "unit/c.py"]
    assert order[:2] == ["e2e/a.py", "unit/a.py"]
    assert set(order[4:]) == {"e2e/c.py", "unit/c.py"}


def test_what_nobody_measured_has_a_place() -> None:
    assert durations.ordered(["unit/new.py", "unit/long.py"], {"unit/long.py": 9.0}) == ["unit/long.py", "unit/new.py"]
    assert durations.ordered([], {}) == []
    assert durations.expected("e2e/new.py", {}) > durations.expected("unit/new.py", {})


@pytest.mark.parametrize("cached", [None, [], "x", {"unit/a.py": "long"}, {"unit/a.py": None}])
def test_a_cache_of_anything_does_no_harm(cached: object) -> None:
    assert durations.known(cached) == durations.seed()


def test_a_run_is_kept_over_what_was_known() -> None:
    name = "unit/kit/test_durations.py"
    gone = {"unit/gone/test_gone.py": 5.0, name: 1.0, "conftest.py": 2.0}
    assert durations.merged(gone, {name: 3.0}) == {"conftest.py": 2.0, name: 3.0}


def test_the_seed_is_of_files_that_are_there() -> None:
    """`make durations` writes it; a file that has moved since is only taken to be new."""
    found = json.loads(durations.SEED.read_text())
    assert all(isinstance(value, float) and value >= 0 for value in found.values())
    assert sum((durations.TESTS / name).exists() for name in found) > len(found) / 2
