"""The pages of models as a person meets them, in a real Chromium."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, Page, expect

from tests.kit.records.seed import FakeTracker, Seeded
from tests.kit.web import FakeLauncher, running_app
from tuner.records.store import RecordStore


def test_the_way_through_models(page: Page, root: str, ids: Seeded) -> None:
    page.goto(root)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Models").click()
    page.get_by_role("link", name="resnet18").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("resnet18")
    page.get_by_role("navigation", name="Device class").get_by_role("link", name=re.compile("^amd-epyc")).click()
    expect(page.locator(".figure.series circle.dot")).to_have_count(15)
    kernels = page.get_by_role("table", name="Kernels of this version").get_by_role("row")
    expect(kernels.nth(1)).to_contain_text("fused_conv2d_add_relu")
    expect(kernels.nth(1)).to_contain_text("tuned")

    graph = page.locator("svg.graph")
    expect(graph.locator("g.call")).to_have_count(29)
    expect(graph.locator("g.heat5").first).to_contain_text("fused_conv2d")
    width = int(graph.get_attribute("width") or 0)
    page.get_by_role("button", name="larger").click()
    expect(graph).to_have_attribute("width", str(round(1.25 * width)))
    page.get_by_role("button", name="all of it").click()
    assert int(graph.get_attribute("width") or 0) < width

    page.get_by_role("link", name="with version cccccccc").click()
    both = page.get_by_role("table", name="Kernels of the newest profiled run").get_by_role("row")
    expect(both.nth(1)).to_contain_text("as long")  # the newer one is the first side
    expect(both.nth(2)).to_contain_text("fused_conv2d_add_relu")


def test_a_model_without_known_functions_is_refused_in_place(
    context: BrowserContext, store: RecordStore, ids: Seeded
) -> None:
    launcher = FakeLauncher()
    with running_app(store, FakeTracker(), launcher=launcher) as address:
        page = context.new_page()
        page.goto(f"{address}/models/{ids.model}")
        page.get_by_label("Devices").fill("cpu")
        page.get_by_role("button", name="Tune its kernels").click()
        expect(page.get_by_role("alert")).to_contain_text("is another one")
    assert launcher.started == []
