"""A real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.kit.records.seed import FakeTracker
from tests.kit.web import running_app
from tuner.records.store import RecordStore

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
playwright.expect.set_options(timeout=60_000)  # instead of 5 s: the machine may be busy

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path: TUNEFARM_CHROMIUM, or the system's."""
    named = os.environ.get("TUNEFARM_CHROMIUM")
    for name in (named,) if named else ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no chromium on this machine (apt-get install chromium)")


@pytest.fixture(scope="session")
def driver() -> Iterator[playwright.Playwright]:
    with playwright.sync_playwright() as running:
        yield running


class Problems:
    """Errors in the browser: script errors, console errors, requests to anywhere else."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def watch(self, page: playwright.Page, root: str) -> None:
        page.on("pageerror", lambda error: self.found.append(f"script error: {error}"))
        page.on("console", lambda m: self.found.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("request", lambda r: None if r.url.startswith(root) else self.found.append(f"request to {r.url}"))


@pytest.fixture
def problems() -> Iterator[Problems]:
    watched = Problems()
    yield watched
    assert watched.found == []


@pytest.fixture(scope="session")
def browser(driver: playwright.Playwright, chromium: str) -> Iterator[playwright.Browser]:
    """Begun once, which takes longer than most tests; what it keeps of a page belongs to a test's context."""
    running = driver.chromium.launch(executable_path=chromium, args=FLAGS, headless=True)
    yield running
    running.close()


@pytest.fixture
def context(browser: playwright.Browser, request: pytest.FixtureRequest) -> Iterator[playwright.BrowserContext]:
    """A window with storage of its own; parametrise indirectly with "light" or "dark"."""
    opened = browser.new_context(
        color_scheme=getattr(request, "param", "light"),
        viewport={"width": 1280, "height": 900},
        permissions=["clipboard-read", "clipboard-write"],
    )
    opened.set_default_timeout(60_000)
    yield opened
    opened.close()


@pytest.fixture
def store(seeded_store: RecordStore) -> RecordStore:
    return seeded_store


@pytest.fixture
def tracker() -> FakeTracker:
    return FakeTracker()


@pytest.fixture
def root(store: RecordStore, tracker: FakeTracker) -> Iterator[str]:
    with running_app(store, tracker) as address:
        yield address


@pytest.fixture
def page(context: playwright.BrowserContext, root: str, problems: Problems) -> playwright.Page:
    opened = context.new_page()
    problems.watch(opened, root)
    return opened
