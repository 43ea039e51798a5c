"""Lists of whole numbers as people and Linux write them: cores, ports."""

from __future__ import annotations

import re

_SPAN = re.compile(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*")


def spans(text: str) -> list[tuple[int, int]] | None:
    """The first and last of each span of a list such as "0-3,8"; None for another text."""
    found = [_SPAN.fullmatch(part) for part in text.split(",")]
    return [(int(span[1]), int(span[2] or span[1])) for span in found if span] if all(found) else None
