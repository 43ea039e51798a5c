"""docs/schedule.md has every primitive, as its docstring describes and draws it."""

from __future__ import annotations

from tests.kit.docs_pages import ROOT
from tests.kit.primitive_sections import PAGE, with_sections


def test_the_page_is_linked() -> None:
    assert "(schedule.md)" in (ROOT / "docs" / "index.md").read_text()


def test_the_sections_are_those_that_the_docstrings_make() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == with_sections(written), "run python -m tests.kit.primitive_sections"


def test_an_edited_section_is_written_anew() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert with_sections(written.replace("Put loops in the given order", "Sort loops")) == written
