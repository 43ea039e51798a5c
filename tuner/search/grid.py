"""Grid search: every allowed point in order, the sketches in turns."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from tuner.search.base import Candidate
from tuner.space.sketch import Sketch


class GridSearch:
    """Walks each sketch from the first values of its decisions to the last, the last decision fastest."""

    def __init__(self, sketches: Sequence[Sketch], seed: int = 0, seen: Iterable[str] = ()) -> None:
        """`seed` has nothing to decide here. `seen` holds digests of candidates that are left out."""
        self._seen = set(seen)
        self._walks = [self._walk(sketch) for sketch in sketches]

    def ask(self, count: int) -> list[Candidate]:
        chosen: list[Candidate] = []
        while self._walks and len(chosen) < count:
            walk = self._walks.pop(0)
            candidate = next(walk, None)
            if candidate is not None:
                self._walks.append(walk)
                chosen.append(candidate)
        return chosen

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        self._seen.add(candidate.digest)

    def _walk(self, sketch: Sketch) -> Iterator[Candidate]:
        for point in itertools.product(*(range(len(d.values)) for d in sketch.decisions)):
            if sketch.is_allowed(point):
                candidate = Candidate(sketch, point)
                if candidate.digest not in self._seen:
                    self._seen.add(candidate.digest)
                    yield candidate
