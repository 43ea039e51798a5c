"""Random search: uniform over the allowed points, without repeats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tuner.search.base import Candidate
from tuner.space.sketch import Sketch

_ATTEMPTS = 200


class RandomSearch:
    """Draws sketches in proportion to the logarithm of their size, then a point uniformly."""

    def __init__(self, sketches: Sequence[Sketch], seed: int = 0, seen: Iterable[str] = ()) -> None:
        """`seen` holds digests of candidates measured before, which are never asked again."""
        self._sketches = tuple(sketches)
        self._rng = np.random.default_rng(seed)
        self._seen = set(seen)
        weights = np.array([np.log1p(s.size) for s in self._sketches])
        self._weights = weights / weights.sum()

    def ask(self, count: int) -> list[Candidate]:
        chosen: list[Candidate] = []
        for _ in range(count * _ATTEMPTS):
            if len(chosen) == count:
                break
            candidate = self.draw()
            if candidate is not None and self.claim(candidate):
                chosen.append(candidate)
        return chosen

    def tell(self, candidate: Candidate, cost: float | None) -> None:
        self._seen.add(candidate.digest)

    def draw(self) -> Candidate | None:
        """A random allowed candidate, perhaps one seen before."""
        sketch = self._sketches[int(self._rng.choice(len(self._sketches), p=self._weights))]
        point = sketch.random(self._rng)
        return None if point is None else Candidate(sketch, point)

    def claim(self, candidate: Candidate) -> bool:
        """Mark `candidate` as asked for; False when it was asked or measured before."""
        if candidate.digest in self._seen:
            return False
        self._seen.add(candidate.digest)
        return True
