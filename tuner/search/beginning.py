"""A search that begins with one candidate: what is built where nobody tunes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tuner.search.base import Proposal, SearchStrategy


class Beginning:
    """The strategy `inner`, asked from the second candidate on: the first is `first`."""

    def __init__(self, inner: SearchStrategy, first: Proposal) -> None:
        self._inner = inner
        self._first = first
        self._is_due = True

    def ask(self, count: int) -> Sequence[Proposal]:
        chosen: list[Proposal] = []
        if self._is_due and count > 0:
            self._is_due = False
            chosen.append(self._first)
        while len(chosen) < count:
            more = self._inner.ask(count - len(chosen))
            if not more:
                break
            chosen += [candidate for candidate in more if candidate.digest != self._first.digest]
        return chosen

    def tell(self, candidate: Any, cost: float | None) -> None:
        self._is_due = self._is_due and candidate.digest != self._first.digest
        self._inner.tell(candidate, cost)
