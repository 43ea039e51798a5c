"""Names that no other thing has."""

from __future__ import annotations

import re

_COUNTED = re.compile(r"(.*?)(\d+)")


class FreshNames:
    """Gives out unused names: the wanted one, or that with a number appended. `outer` names count as used."""

    def __init__(self, outer: FreshNames | None = None) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._outer = outer

    def __contains__(self, name: str) -> bool:
        return name in self._taken or (self._outer is not None and name in self._outer)

    def take(self, name: str) -> None:
        """Reserve `name`, so that nobody else gets it."""
        self._taken.add(name)

    def unique(self, wanted: str) -> str:
        """Return `wanted`, or `wanted` with the least number that makes it new: "lv", "lv1", "lv2"."""
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
