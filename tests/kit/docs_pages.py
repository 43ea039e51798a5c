"""The pages of the documentation and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.kit.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: `words` is what stands after the fence, `line` where its code begins."""

    page: Path
    line: int
    words: tuple[str, ...]
    code: str

    @property
    def padded(self) -> str:
        """The code at its own line numbers, so that a traceback points into the page."""
        return "\n" * (self.line - 1) + self.code


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, m.start("code")) + 1, tuple(m["info"].split()), m["code"])
        for m in _BLOCK.finditer(text)
    ]


def section(page: Path, heading: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    level = heading.split(" ")[0]
    text = page.read_text()
    start = text.index(f"\n{heading}\n") + len(heading) + 2
    end = re.search(rf"^#{{1,{len(level)}}} ", text[start:], re.MULTILINE)
    return text[start : start + end.start()] if end else text[start:]
