"""The hint for a name nobody knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: object, known: Iterable[str]) -> str:
    """Suggest "did you mean 'x'?" if a known name is similar, and list the known ones."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, 1, 0.6)
    return (f"did you mean {close[0]!r}? " if close else "") + f"known: {', '.join(names) or 'none'}"
