"""Which requests a token's scopes allow. Pure: paths and parameters in, an error or nothing out."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request

from tuner.records.farm.scopes import EVERYTHING, Area, Scopes
from webui.errors import Forbidden

_API = "/api/v1/"
_ALWAYS = frozenset({"health", "openapi.json"})
_AREAS = {
    "best": Area.BEST, "best-configs": Area.BEST, "explain": Area.BEST, "families": Area.BEST,
    "workloads": Area.BEST,
    "runs": Area.RUNS, "trials": Area.RUNS,
    "records": Area.RECORDS,
    "releases": Area.RELEASES,
    "models": Area.MODELS,
    "devices": Area.FARM, "device-events": Area.FARM, "leases": Area.FARM, "benchmarks": Area.FARM,
    "benchmark-series": Area.FARM, "quotas": Area.FARM, "boxes": Area.FARM,
    "metrics": Area.METRICS,
}  # fmt: skip
"""The area of each first word of a path of the API. A path of none of them is closed to tokens that are held to areas;
a test holds this to the routes."""


def area_of(path: str) -> Area | None:
    """The area that a path belongs to; None for what any token may ask.
    Raises Forbidden for a path of no area."""
    if path.startswith(_API):
        word = path.removeprefix(_API).partition("/")[0]
        if word in _ALWAYS:
            return None
        if word not in _AREAS:
            raise Forbidden("this token is for some parts of the app only, and this path belongs to none of them")
        return _AREAS[word]
    if path == "/metrics":
        return Area.METRICS
    return None if path.startswith("/static/") else Area.PAGES


def check_scopes(scopes: Scopes, path: str, query: Mapping[str, str]) -> None:
    """Raise Forbidden for a request that the token is not for.
    Routes look at what a body says, and at models, with `check_release` and `check_model`."""
    if scopes.whole or (area := area_of(path)) is None:
        return
    if scopes.areas and area not in scopes.areas:
        raise _refusal(scopes, f"it does not open {area}")
    if not scopes.models and not scopes.releases:
        return
    words = path.removeprefix(_API).split("/")
    match area:
        case Area.MODELS if scopes.models:
            if words[-1] == "configs" and scopes.releases:
                check_release(scopes, query.get("release"))
        case Area.RELEASES if scopes.releases and len(words) > 1:
            check_release(scopes, words[1])
            if "since" in query:
                check_release(scopes, query["since"])
        case Area.BEST if scopes.releases and words in (["best", "batch"], ["families", "best"]):
            if words[0] == "families":
                check_release(scopes, query.get("release"))
        case _:
            raise _refusal(scopes, "it does not open this path")


def scopes_of(request: Request) -> Scopes:
    """The scopes of the token that a request came with."""
    found: Scopes = request.scope.get("tunefarm_scopes", EVERYTHING)
    return found


def check_release(scopes: Scopes, release: str | None) -> None:
    """Raise Forbidden unless the token may use the release; None is no release, but what is best now."""
    if scopes.releases and release not in scopes.releases:
        wanted = f"release {release}" if release else "the configs that are best now"
        raise _refusal(scopes, f"it does not open {wanted}")


def check_model(scopes: Scopes, model: str) -> None:
    """Raise Forbidden unless the token may be used for the model of this name."""
    if scopes.models and model not in scopes.models:
        raise _refusal(scopes, f"it does not open model {model}")


def _refusal(scopes: Scopes, why: str) -> Forbidden:
    parts = [str(area) for area in scopes.areas]
    parts += [f"model {name}" for name in scopes.models] + [f"release {name}" for name in scopes.releases]
    return Forbidden(f"this token is for {', '.join(parts)} only: {why}", hint="`tunefarm token new` makes another")
