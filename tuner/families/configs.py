"""A config of a family: the same choices at every size, and its candidate at one size."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tuner.families.sizes import FamilyError
from tuner.search.base import Candidate
from tuner.space.repair import nearest_point
from tuner.space.sketch import Sketch


@dataclass(frozen=True)
class FamilyConfig:
    """The name of a sketch and the value of each of its decisions.
    `shown` is how people read it, where that differs: a kernel of somebody's own has places in lists of values."""

    sketch: str
    values: tuple[tuple[str, int], ...]
    shown: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(sorted(self.values)))

    def __str__(self) -> str:
        return self.shown or " ".join([self.sketch, *(f"{name}={value}" for name, value in self.values)])

    @cached_property
    def digest(self) -> str:
        """Names the config in records."""
        kept = {"sketch": self.sketch, "values": dict(self.values)}
        text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"sketch": self.sketch, "values": dict(self.values)}
        return {**made, "shown": self.shown} if self.shown else made

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FamilyConfig:
        """The inverse of `to_json`. Raises FamilyError."""
        try:
            values = tuple((str(name), int(value)) for name, value in data["values"].items())
            return FamilyConfig(str(data["sketch"]), values, str(data.get("shown", "")))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise FamilyError(f"{str(data)[:80]!r} is no config of a family") from None

    @staticmethod
    def of(candidate: Candidate) -> FamilyConfig:
        """The config of which `candidate` is what it is at its own size."""
        sketch, point = candidate.sketch, candidate.decisions
        return FamilyConfig(sketch.name, tuple(sketch.values(point).items()), sketch.shown(point))


def realised(config: FamilyConfig, sketches: Sequence[Sketch], exact: bool = False) -> Candidate | None:
    """The candidate that a config is in the space of one size; None where that has nothing like it.

    Sketches depend on the size ("panels+pack" does not exist for a single row). So the most similar one is taken,
    with the nearest allowed values. With `exact` sketch and values have to exist as they are.
    """
    values = dict(config.values)
    if exact:
        return next((found for s in sketches if s.name == config.sketch and (found := _exactly(s, values))), None)
    alike = [sketch for sketch in sketches if any(d.name in values for d in sketch.decisions)]
    if not alike:
        return None
    sketch = max(alike, key=lambda other: _likeness(other, config))
    point = nearest_point(sketch, values)
    return None if point is None else Candidate(sketch, point)


def _likeness(sketch: Sketch, config: FamilyConfig) -> tuple[bool, int, int]:
    words = set(sketch.name.split("+")) & set(config.sketch.split("+"))
    names = {d.name for d in sketch.decisions} & {name for name, _ in config.values}
    return sketch.name == config.sketch, len(words), len(names)


def _exactly(sketch: Sketch, values: Mapping[str, int]) -> Candidate | None:
    if {d.name for d in sketch.decisions} != set(values):
        return None
    if any(values[d.name] not in d.values for d in sketch.decisions):
        return None
    point = tuple(d.values.index(values[d.name]) for d in sketch.decisions)
    return Candidate(sketch, point) if sketch.is_allowed(point) else None
