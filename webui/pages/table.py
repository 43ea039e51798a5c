"""The pages by subject. A page is one file with a router (and its templates), and a row here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from fastapi import APIRouter


@dataclass(frozen=True, slots=True)
class Page:
    """Pages of one subject: the first one's `path`, its navigation `title` ("": none), the router."""

    title: str
    path: str
    where: str

    def load(self) -> APIRouter:
        """Import the router."""
        module, name = self.where.split(":")
        router: APIRouter = getattr(importlib.import_module(module), name)
        return router


PAGES: list[Page] = [
    Page("Overview", "/", "webui.pages.overview:router"),
    Page("Runs", "/runs", "webui.pages.runs:router"),
    Page("Models", "/models", "webui.pages.models:router"),
    Page("Workloads", "/workloads", "webui.pages.workloads:router"),
    Page("Families", "/families", "webui.pages.families:router"),
    Page("Best configs", "/best", "webui.pages.configs:router"),
    Page("Releases", "/releases", "webui.pages.releases:router"),
    Page("Benchmarks", "/benchmarks", "webui.pages.benchmarks:router"),
    Page("Docs", "/docs", "webui.pages.documentation:router"),
    Page("", "/compare", "webui.pages.compare:router"),
    Page("", "/devices/{name:path}", "webui.pages.devices:router"),
]
"""In the order of the navigation."""


def navigation() -> list[tuple[str, str]]:
    """Return title and path of the entries of the navigation."""
    return [(page.title, page.path) for page in PAGES if page.title]
