"""How long the pages are that a newcomer reads first, and where numbers lie."""

from __future__ import annotations

import re

import pytest

from tests.kit.places import DOCS, ROOT

DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


def test_the_readme_is_under_120_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


def test_the_architecture_is_two_pages_with_a_table_of_where_to_change_what() -> None:
    text = (DOCS / "architecture.md").read_text()
    assert "## Where do I change X?" in text
    assert len(text.split()) <= 1300


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_is_half_a_page(page: object) -> None:
    text = page.read_text()  # type: ignore[attr-defined]
    assert all(f"**{part}" in text for part in ("Context", "Decision", "Consequence"))
    assert len(text.split()) <= 250


def test_an_entry_of_the_changelog_is_one_line() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("## "))
    assert not [line for line in lines[start:] if line.startswith(" ")]


def test_a_user_reads_the_page_of_performance_in_two_minutes() -> None:
    text = re.sub(r"\]\([^)]*\)|`[^`]*`", "", (DOCS / "performance.md").read_text())
    assert len(re.findall(r"[^\W\d_]+", text)) <= 500
