"""The pages as a person meets them, in a real Chromium."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import Page, expect

from rpc_server.errors import ConnectError
from tests.kit.records.seed import FakeTracker, Seeded, go_on
from tuner.records.model import RunState
from tuner.records.store import RecordStore


def test_the_way_through(page: Page, root: str, ids: Seeded) -> None:
    page.goto(root)
    expect(page).to_have_title("Overview · tunefarm")
    expect(page.get_by_role("region", name="Devices").get_by_role("row")).to_have_count(5)
    expect(page.get_by_text("the probe kernel failed after a crash")).to_be_visible()
    asked = page.get_by_role("table", name="Requests by what they ask for").get_by_role("row").nth(1)
    expect(asked).to_contain_text("cpu")
    expect(asked).to_contain_text("538 ms")  # 64.5 s of waiting over 120 grants
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Runs").click()
    page.get_by_role("link", name=f"Run {ids.finished}", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Run {ids.finished}")
    expect(page.locator(".curve svg")).to_have_count(2)
    page.get_by_role("link", name="failed", exact=True).click()
    expect(page).to_have_url(re.compile("status=failed"))
    page.get_by_role("table", name="Trials").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Why it failed")).to_be_visible()
    page.get_by_role("link", name="Best configs").click()
    page.get_by_label("Workload").fill(ids.conv.name)
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("table", name="Best configs").get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name=ids.conv.name).click()
    expect(page.get_by_text("sch.get_block(name='C')")).to_be_visible()


def test_a_live_run(page: Page, root: str, store: RecordStore, ids: Seeded) -> None:
    page.goto(f"{root}/runs/{ids.running}")
    expect(page.locator("#live")).to_have_text("live")
    dots = page.locator(".curve").first.locator("circle.trial, line.fail")
    expect(dots).to_have_count(55)
    stop = threading.Event()
    tuner = threading.Thread(target=lambda: list(go_on(store, ids.running, stop, pause_s=0.02)))
    tuner.start()
    try:
        expect(page.locator("#run-trials tbody th").first).to_have_text(re.compile(r"^(1[3-9]\d|[2-9]\d\d)$"))
        expect(dots.nth(70)).to_be_attached()
    finally:
        stop.set()
        tuner.join()
    store.runs.set_state(ids.running, RunState.FINISHED)
    expect(page.locator("#run-head .badge")).to_have_text("finished")
    expect(page.locator("#live")).to_have_text("")
    run = store.runs.get(ids.running)
    expect(page.locator("#run-tiles .value").first).to_have_text(f"{run.trials} of {run.budget}")
    assert dots.count() == run.tasks[0].trials


def test_a_press_is_a_click_though_the_page_changes_meanwhile(
    page: Page, root: str, store: RecordStore, ids: Seeded
) -> None:
    page.goto(root)
    link = page.get_by_role("link", name=f"Run {ids.running}", exact=True)
    link.hover()
    page.mouse.down()
    with page.expect_response(f"{root}/"):
        next(go_on(store, ids.running, threading.Event(), pause_s=0.0))
    page.wait_for_timeout(500)  # it would be shown by now
    page.mouse.up()
    expect(page).to_have_url(f"{root}/runs/{ids.running}")


def test_the_curve_by_keyboard(page: Page, root: str, ids: Seeded) -> None:
    page.goto(f"{root}/runs/{ids.finished}")
    curve = page.locator(".curve").first
    picture = curve.get_by_role("img")
    expect(picture).to_have_attribute("aria-label", re.compile(r"Best so far of matmul.* GFLOP/s after 64 trials"))
    picture.focus()
    page.keyboard.press("End")
    expect(curve.locator(".readout")).to_have_text(re.compile(r"^trial \d+, after .*GFLOP/s .*× the untuned$"))
    last = curve.locator(".readout").inner_text()
    page.keyboard.press("ArrowLeft")
    expect(curve.locator(".readout")).not_to_have_text(last)
    page.get_by_role("button", name="by time").click()
    expect(curve.get_by_text("time since the start")).to_be_visible()
    curve.get_by_text("Numbers").click()
    rows = curve.locator(".numbers tbody tr")
    assert rows.count() == curve.locator("circle.step").count()


def test_commands_are_copied(page: Page, root: str, ids: Seeded, store: RecordStore) -> None:
    page.goto(f"{root}/runs/{ids.interrupted}")
    page.get_by_role("button", name="Copy the command").last.click()
    expect(page.get_by_role("button", name="Copy the command").last).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"tunefarm tune --resume {ids.interrupted} --tracker 127.0.0.1:9190 --key cpu"
    )


def test_an_opened_failure_stays_open(page: Page, root: str, ids: Seeded, store: RecordStore) -> None:
    page.goto(f"{root}/runs/{ids.running}")
    expect(page.locator("#live")).to_have_text("live")
    first = page.locator("#run-failures details").first
    first.locator("summary").click()
    expect(first.locator("pre")).to_be_visible()
    before = page.locator("#run-trials tbody th").first.inner_text()
    list(zip(range(3), go_on(store, ids.running, threading.Event(), pause_s=0.01)))
    expect(page.locator("#run-trials tbody th").first).not_to_have_text(before)
    expect(page.locator("#run-failures details[open]")).to_have_count(1)


def test_a_tracker_that_goes_away_is_said_on_the_open_page(
    page: Page, root: str, ids: Seeded, tracker: FakeTracker
) -> None:
    page.goto(root)
    expect(page.get_by_role("alert")).to_have_count(0)
    tracker.problem = ConnectError("no tracker answers at 127.0.0.1:9190")
    expect(page.get_by_role("alert")).to_contain_text("no tracker answers at 127.0.0.1:9190")
    tracker.problem = None
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("context", ["light", "dark"], indirect=True)
def test_text_can_be_read(page: Page, root: str, ids: Seeded) -> None:
    """Contrast of at least 4.5 between every text and what is behind it (WCAG 2 AA), and nothing out of reach."""
    runs, closer = (f"/runs/{ids.finished}", f"/runs/{ids.failed}"), explored(ids)
    for path in ("/", *runs, "/best/1", "/best?workload=unheard-of", *closer):
        page.goto(root + path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate(LOW_CONTRAST) == [], path
        assert page.evaluate(UNNAMED) == [], path
        width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert width == 0, path


def test_a_small_screen_scrolls_tables_not_the_page(page: Page, root: str, ids: Seeded) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("/", f"/runs/{ids.finished}", "/best", "/best/1", f"/trials/{ids.finished}", *explored(ids)):
        page.goto(root + path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        assert page.evaluate(SMALL_TEXT) == [], path  # a picture is scrolled, too, not made small


def explored(ids: Seeded) -> tuple[str, ...]:
    """The pages to look closer with."""
    compared = f"/compare?a={ids.finished}&b={ids.running}"
    tuned = (f"/runs/{ids.finished}/choices", compared, "/workloads", f"/workloads/{ids.matmul.key}")
    series = f"/benchmarks/series?kernel={ids.matmul.name}&device=rack1-01/0"
    released = ("/releases", "/releases/2026.10", "/releases/2026.11/diff?old=2026.10")
    benchmarks = ("/benchmarks", f"/benchmarks/{ids.benchmark}", series)
    return (*tuned, *released, *benchmarks, "/devices/rack1-02/0")


def test_nothing_moves_once_it_is_shown(page: Page, root: str, ids: Seeded) -> None:
    """A click on what moves meanwhile is lost."""
    page.add_init_script(WATCH_SHIFTS)
    for path in ("/", "/runs", f"/runs/{ids.finished}", "/best", "/best/1", f"/trials/{ids.finished}", *explored(ids)):
        page.goto(root + path)
        page.wait_for_load_state("networkidle")
        page.evaluate("() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        assert page.evaluate("shifts") == [], path


def test_looking_closer(page: Page, root: str, ids: Seeded) -> None:
    page.goto(f"{root}/runs/{ids.finished}")
    page.get_by_role("link", name="What the candidates chose").click()
    expect(page.get_by_role("img", name=re.compile("A line for each candidate"))).to_be_visible()
    choices = page.get_by_role("table", name="Choices by importance")
    expect(choices.get_by_role("rowheader", name="split C.0")).to_be_visible()
    assert page.locator(".figure.parallel polyline").count() == int(
        page.locator("header p.muted").inner_text().split()[0]
    )
    page.get_by_role("link", name=ids.conv.name).click()
    expect(page).to_have_url(re.compile("task=1"))
    page.goto(f"{root}/runs/{ids.finished}")
    page.get_by_role("link", name="compare with another run").click()
    page.get_by_label("With").select_option(str(ids.running))
    page.get_by_role("button", name="Compare").click()
    results = page.get_by_role("table", name="The best of each workload in both runs")
    expect(results.get_by_role("row")).to_have_count(3)
    expect(results.get_by_text("GFLOP/s")).to_have_count(4)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Workloads").click()
    page.get_by_role("link", name=ids.matmul.name).click()
    expect(page.get_by_role("img", name=re.compile("Roofline of matmul"))).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "tunefarm-best.csv"
    rows = download.value.path().read_text().splitlines()
    assert len(rows) == 2
    assert ids.matmul.key in rows[1]


def test_releases_and_benchmarks(page: Page, root: str, ids: Seeded) -> None:
    page.goto(root)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Releases").click()
    page.get_by_role("link", name="2026.11").click()
    expect(page.get_by_text("builds refuse it")).to_be_visible()
    expect(page.get_by_role("table", name="Configs of this release").get_by_role("row")).to_have_count(4)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("From release 2026.10 to 2026.11")
    expect(page.get_by_text("added", exact=True)).to_have_count(2)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Benchmarks").click()
    page.get_by_role("link", name=f"Benchmark {ids.benchmark}", exact=True).click()
    expect(page.get_by_role("table", name="Results by device and kernel").get_by_role("row")).to_have_count(5)
    page.get_by_role("link", name=ids.matmul.name).first.click()
    expect(page.locator(".series circle.dot")).to_have_count(14)
    expect(page.locator(".series circle.ring")).to_have_count(1)
    expect(page.locator(".series .level")).to_have_count(2)
    expect(page.get_by_text("another level")).to_have_count(1)


SMALL_TEXT = """() => [...document.querySelectorAll("svg.figure")]
    .filter((figure) => figure.getBoundingClientRect().width / figure.viewBox.baseVal.width * 11 < 9)
    .map((figure) => figure.getAttribute("class"))"""
WATCH_SHIFTS = """window.shifts = [];
const moved = (shift) => shift.sources.map(({ node }) => node?.outerHTML?.slice(0, 80));
const watch = new PerformanceObserver((seen) => shifts.push(...seen.getEntries().map(moved)));
watch.observe({ type: "layout-shift", buffered: true })"""
LOW_CONTRAST = """() => {
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const lum = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => {
    for (let at = e; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const low = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const ink = parse(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [lum(ink), lum(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = `${e.className.baseVal ?? e.className} "${e.textContent.trim().slice(0, 40)}"`;
    if (ratio < 4.5) low.push(`${name} ${ratio.toFixed(2)}`);
  }
  return low;
}"""

UNNAMED = """() => [...document.querySelectorAll(
    'a, button, input, select, [role=img], [role=region], table, progress')]
  .filter((e) => e.getClientRects().length)
  .filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim()
    || e.closest('label') || e.querySelector('caption')))
  .map((e) => e.outerHTML.slice(0, 80))"""


def test_a_family_says_what_is_picked_where(page: Page, root: str) -> None:
    page.goto(root)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Families").click()
    page.get_by_role("link", name="dense:M,3072,768:float32").click()
    columns = page.locator(".figure.family .column")
    expect(columns).to_have_count(10)
    columns.nth(3).hover()
    expect(columns.nth(3).locator("title")).to_contain_text("M=17: panels+pack")
    page.get_by_label("M", exact=True).fill("24")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("the nearest measured size is")).to_be_visible()
