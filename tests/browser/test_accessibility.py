"""The pages by axe-core's accessibility rules, by keyboard, and on paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.kit.records.seed import Seeded

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")


# how well text can be read is measured for both colour schemes in test_dashboard.py, in less time
# and of what is as it should be nothing needs to be told
RULES = {"rules": {"color-contrast": {"enabled": False}}, "resultTypes": ["violations"]}


def every_page(ids: Seeded) -> tuple[str, ...]:
    """One address or two of each kind."""
    runs = ("/runs", f"/runs/{ids.finished}", f"/runs/{ids.interrupted}", "/trials/3")
    compared = f"/compare?a={ids.finished}"
    looks = (f"/runs/{ids.finished}/choices", compared, f"{compared}&b={ids.running}")
    best = (
        "/families",
        "/families/1?size=20",
        "/workloads",
        f"/workloads/{ids.matmul.key}",
        "/best",
        "/best/1",
        "/best?objective=energy",
    )
    released = ("/releases", "/releases/2026.10", "/releases/2026.11/diff?old=2026.10")
    series = f"/benchmarks/series?kernel={ids.matmul.name}&device=rack1-01/0"
    model = f"/models/{ids.model}"
    models = ("/models", model, f"{model}/times/1", f"{model}/compare?a=cccc&b=dddd&class_a=x&class_b=x")
    measured = ("/benchmarks", "/benchmarks/1", series, "/devices/rack1-02/0")
    return ("/", *runs, *models, *looks, *best, *released, *measured)


def test_axe_finds_nothing(page: Page, root: str, ids: Seeded) -> None:
    found = []
    for path in every_page(ids):
        page.goto(root + path)
        for violation in axe.Axe().run(page, options=RULES).response["violations"]:
            nodes = [node["html"][:120] for node in violation["nodes"][:3]]
            found.append(f"{path}: {violation['id']}: {violation['help']}: {nodes}")
    assert found == []


def test_the_keyboard_reaches_everything(page: Page, root: str, ids: Seeded) -> None:
    page.goto(f"{root}/devices/rack1-02/0")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.ariaLabel || document.activeElement.textContent"))
    assert {"Checks and events", "Benchmarks", "Trials", "CSV", "JSON", ids.matmul.name} <= reached


def test_on_paper(page: Page, root: str, ids: Seeded) -> None:
    """Black on white also for who reads in the dark, the tables whole, and nothing that can only be clicked."""
    page.emulate_media(media="print", color_scheme="dark")
    page.goto(f"{root}/runs/{ids.finished}")
    expect(page.get_by_role("navigation", name="Main")).not_to_be_visible()
    expect(page.get_by_role("button", name="Copy the command").first).not_to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    dark = page.evaluate("getComputedStyle(document.querySelector('h1')).color.match(/\\d+/g).map(Number)")
    assert max(dark) < 100
    assert page.evaluate("getComputedStyle(document.querySelector('.scroll')).overflow") == "visible"
