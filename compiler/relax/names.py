"""Names that no other thing has."""

from __future__ import annotations

import re

_COUNTED = re.compile(r"(.*?)(\d+)")


class FreshNames:
    """Gives out names: the wanted one, or that with a number behind it. `outer` names are taken, too."""

    def __init__(self, outer: FreshNames | None = None) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._outer = outer

    def __contains__(self, name: str) -> bool:
        return name in self._taken or (self._outer is not None and name in self._outer)

    def take(self, name: str) -> None:
        """Give `name` out to nobody else."""
        self._taken.add(name)

    def unique(self, wanted: str) -> str:
        """`wanted`, or with the least number behind it that makes it new: "lv", "lv1", "lv2"."""
        name = wanted
        if name in self:
            match = _COUNTED.fullmatch(wanted)
            base = match[1] if match and match[1] else wanted
            count = max(self._next.get(base, 1), int(match[2]) + 1 if match and match[1] else 1)
            while (name := f"{base}{count}") in self:
                count += 1
            self._next[base] = count + 1
        self._taken.add(name)
        return name
