"""Runs begun, watched, cancelled and gone on with on the pages: a real tuning process measures on this machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Problems
from tests.kit import patient_http
from tests.kit.web import running_app
from tuner.records.model import RunState
from tuner.records.store import RecordStore
from webui.launcher import ProcessLauncher

KERNEL = "matmul:32,32,32:float32"
LONG = 20_000  # trials that nobody waits for
PATIENCE_MS = 180_000  # a tuning process begins slowly on a busy machine


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    """Yield a store with nothing in it."""
    with RecordStore.open(tmp_path / "records.db", create=True) as opened:
        yield opened


@pytest.fixture
def root(store: RecordStore, tmp_path: Path) -> Iterator[str]:
    """The app with what `tunefarm web --tracker none` starts runs with."""
    launcher = ProcessLauncher(store, (sys.executable, "-m", "tunefarm"), str(tmp_path / "records.db"))
    with running_app(store, launcher=launcher) as address:
        yield address
        for run in store.runs.newest():
            if not run.state.ended:
                store.runs.request_stop(run.id, "the end of the test")


def test_a_run_is_begun_watched_and_cancelled(page: Page, root: str, store: RecordStore, problems: Problems) -> None:
    page.goto(f"{root}/runs")
    expect(page.get_by_text("No runs yet.")).to_be_visible()
    page.get_by_label("Workloads").fill("matmul:8")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("matmul takes 3 sizes")
    assert [text for text in problems.found if "400" not in text] == []
    problems.found.clear()  # the browser's own word of the refusal

    page.get_by_label("Workloads").fill(KERNEL)
    page.get_by_label("Trials each").fill(str(LONG))
    page.get_by_role("button", name="Begin").click()
    expect(page).to_have_url(re.compile(r"/runs/1$"))
    expect(page.locator("#run-head .badge")).to_have_text("running", timeout=PATIENCE_MS)
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".curve circle.step").first).to_be_attached()
    expect(page.locator(".curve circle.trial").nth(5)).to_be_attached()
    expect(page.locator("#run-trials tbody tr").nth(9)).to_be_visible()
    expect(page.locator("#run-tasks").get_by_text("FLOP/s").nth(1)).to_be_visible()
    before = page.locator("#run-tiles .value").first.inner_text()
    expect(page.locator("#run-tiles .value").first).not_to_have_text(before)

    page.get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("Asked; it takes some seconds.")).to_be_visible()
    expect(page.locator("#run-head .badge")).to_have_text("interrupted")
    expect(page.locator("#run-head .notice")).to_have_text("Interrupted: stopped by the web app")
    expect(page.locator("#live")).to_have_text("")
    run = store.runs.get(1)
    assert run.state is RunState.INTERRUPTED
    expect(page.locator("#run-tiles .value").first).to_contain_text(f"{run.trials:,}".replace(",", "\u202f"))
    page.get_by_role("button", name="Go on with the run").click()
    expect(page.get_by_role("button", name="Cancel the run")).to_be_visible()
    page.get_by_role("button", name="Cancel the run").click()  # perhaps before its process has begun
    expect(page.locator("#run-head .badge")).to_have_text("interrupted")


def test_why_a_run_failed_is_on_its_page(page: Page, root: str) -> None:
    """Code for another machine builds, and no device runs it."""
    body = {"workloads": [KERNEL], "target": "llvm -mtriple=riscv64-linux-gnu -mcpu=generic-rv64", "trials": 2}
    assert patient_http.post(f"{root}/api/v1/runs", json=body).status_code == 202
    page.goto(f"{root}/runs/1")
    expect(page.locator("#run-head .badge")).to_have_text("failed", timeout=PATIENCE_MS)
    expect(page.locator("#run-head .notice")).to_contain_text("the untuned function")
    expect(page.get_by_role("button", name="Go on with the run")).to_be_visible()
