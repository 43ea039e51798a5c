"""Limits of a token beside its role: parts of the API, models and releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tuner.records.errors import InvalidRecord

MOST_NAMES = 100
_MOST_NAME = 200


class Area(StrEnum):
    """A part of the web app that a token may be held to."""

    BEST = "best"
    RUNS = "runs"
    RECORDS = "records"
    RELEASES = "releases"
    MODELS = "models"
    FARM = "farm"
    METRICS = "metrics"
    PAGES = "pages"


@dataclass(frozen=True, slots=True)
class Scopes:
    """Empty: no limit.
    `areas` are the parts of the app that may be asked. A token with `models` or `releases` may be used for those, by
    name, and for nothing else."""

    areas: tuple[Area, ...] = ()
    models: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for names in (self.models, self.releases):
            if len(names) > MOST_NAMES or any(not 0 < len(name) <= _MOST_NAME for name in names):
                raise InvalidRecord(f"a token is held to at most {MOST_NAMES} names of 1 to {_MOST_NAME} characters")

    @property
    def whole(self) -> bool:
        """Whether nothing is held back."""
        return not (self.areas or self.models or self.releases)

    def to_json(self) -> dict[str, Any] | None:
        """The scopes as the store has them; None without any."""
        found = {"areas": [str(a) for a in self.areas], "models": [*self.models], "releases": [*self.releases]}
        return {name: values for name, values in found.items() if values} or None

    @staticmethod
    def from_json(data: Mapping[str, Any] | None) -> Scopes:
        """Read what `to_json` wrote. An area of a later version opens nothing here."""
        if not data:
            return EVERYTHING
        known = set(Area)
        areas = tuple(Area(area) for area in data.get("areas", ()) if area in known)
        if data.get("areas") and not areas:
            areas = _NOWHERE
        return Scopes(areas, tuple(data.get("models", ())), tuple(data.get("releases", ())))


EVERYTHING = Scopes()
_NOWHERE: tuple[Area, ...] = (Area.METRICS,)
