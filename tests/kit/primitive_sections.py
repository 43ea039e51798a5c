"""Write the sections of docs/schedule.md, from primitives' docstrings: `python -m tests.kit.primitive_sections`."""

from __future__ import annotations

import inspect
import re
from functools import partial
from itertools import groupby
from textwrap import dedent

from compiler.schedule import primitives as _primitives  # noqa: F401 - registers them
from compiler.schedule.core.step import get_primitive, known_primitives
from tests.kit.places import DOCS

PAGE = DOCS / "schedule.md"
MORE = "<!-- more -->"
"""Stands before what is written by hand in a section."""


def with_sections(text: str) -> str:
    """The page with each primitive's section as its docstring says. What stands behind MORE in a section is kept."""
    for name in known_primitives():
        made = f"\n### `{name}`\n\n{_section(name)}\n"
        text, count = re.subn(
            rf"\n### `{name}`\n(?:(?!\n#|\n{MORE}).)*\n(?=\n#|\n{MORE}|\Z)", partial(_same, made), text, flags=re.DOTALL
        )
        if count != 1:
            raise ValueError(f"{PAGE.name} has no section ### `{name}`")
    return text


def _same(made: str, _found: re.Match[str]) -> str:
    return made


def _section(name: str) -> str:
    """The docstring in Markdown, its pictures as blocks of text."""
    paragraphs = (inspect.getdoc(get_primitive(name).rewrite) or "").split("\n\n")
    parts: list[str] = []
    for is_picture, group in groupby(paragraphs, _is_picture):
        text = "\n\n".join(group)
        parts.append(f"```text\n{dedent(text)}\n```" if is_picture else text)
    return "\n\n".join(parts)


def _is_picture(paragraph: str) -> bool:
    return paragraph.startswith("    ") or "   →   " in paragraph


if __name__ == "__main__":
    PAGE.write_text(with_sections(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
