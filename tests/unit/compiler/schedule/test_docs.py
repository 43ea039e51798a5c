"""docs/schedule.md has every primitive, with the picture that stands at its code."""

from __future__ import annotations

import inspect

import pytest

from compiler.schedule import primitives as _primitives  # noqa: F401  (registers them)
from compiler.schedule.core.step import get_primitive, known_primitives
from tests.kit.docs_pages import ROOT, section

PAGE = ROOT / "docs" / "schedule.md"


def test_the_page_is_linked() -> None:
    assert "(schedule.md)" in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize("name", known_primitives())
def test_a_primitive_has_its_section_and_picture(name: str) -> None:
    text = section(PAGE, f"### `{name}`")
    doc = inspect.getdoc(get_primitive(name).rewrite)
    assert doc is not None
    for line in doc.splitlines():
        assert line.strip() in text, f"docs/schedule.md does not have this line of {name}: {line}"
