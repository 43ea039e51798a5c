"""Numbers as a person reads them."""

import pytest

from tuner.number_text import counted, hours, ranges


@pytest.mark.parametrize(("number", "text"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs")])
def test_things_are_counted_in_the_plural_but_one(number, text):
    assert counted(number, "run") == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (2.8e-4, "0.00028"), (0.004, "0.004"), (1e-5, "0.00001"), (5.0, "5"), (12.34, "12.3")]
)
def test_hours_that_were_used_are_never_none(value, text):
    assert hours(value) == text


@pytest.mark.parametrize(("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2, 5")])
def test_rising_numbers_are_told_as_ranges(numbers, text):
    assert ranges(numbers) == text
