"""The interface of search strategies: ask for candidates, tell their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from tuner.records.lookup.keys import candidate_digest
from tuner.space.sketch import Sketch


class Proposal(Protocol):
    """Anything a strategy may offer. The engine looks at nothing else of it."""

    @property
    def digest(self) -> str:
        """Names it in records (at most 64 characters): equal exactly where `trace_json` is."""

    @property
    def trace_json(self) -> str:
        """The tuning record, as JSON: what it takes to build the same again."""


@dataclass(frozen=True)
class Candidate:
    """One point of a search space: a sketch and, for each of its decisions, an index into its domain.
    `expected` is what a strategy's model expects it to cost, in seconds a call."""

    sketch: Sketch
    decisions: tuple[int, ...]
    expected: float | None = field(default=None, compare=False)

    @cached_property
    def trace_json(self) -> str:
        """The trace with these decisions: the tuning record."""
        return self.sketch.trace_json(self.decisions)

    @cached_property
    def digest(self) -> str:
        """Names the candidate in records; equal traces have equal digests."""
        return candidate_digest(self.trace_json)

    @property
    def key(self) -> tuple[str, tuple[int, ...]]:
        return self.sketch.name, self.decisions


@dataclass(frozen=True)
class Recorded:
    """A candidate known only from the store.
    It can be built and measured, but the search does not start from it."""

    digest: str
    trace_json: str


class Strategy(Protocol):
    """Ask/tell. `ask` never returns a candidate twice, nor one that was told before.

    `tell` takes seconds per call, or None for a candidate that failed. Both are called from one thread, in any
    order, with any number of candidates outstanding: there are no rounds. A strategy is told only of candidates that
    it asked for, or that its task's `recognise` made of a record.
    """

    def ask(self, count: int) -> Sequence[Proposal]:
        """Up to `count` new candidates; fewer (or none) when the space is used up."""

    def tell(self, candidate: Any, cost: float | None) -> None:
        """The measured cost of `candidate`, or None when it failed."""
