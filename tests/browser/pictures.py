"""Pictures of the dashboard over a store: the one in the README, or every page to look at.

    python -m tests.browser.pictures STORE docs/images/dashboard.png [--page /runs/1]
    python -m tests.browser.pictures STORE FOLDER       # each page, wide and narrow, light and dark

It says which pages are wider than the window. The README's picture is of the runs that some `tunefarm demo --folder`
and `tunefarm tune` left, put into one store by `tunefarm records merge`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import playwright.sync_api as playwright

from tests.browser.conftest import FLAGS
from tests.kit.web import running_app
from tuner.records.store import RecordStore

Scheme = Literal["light", "dark"]
WIDE, NARROW, HEIGHT = 1400, 390, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store")
    parser.add_argument("to", type=Path)
    parser.add_argument("--page", help="by default the newest run's")
    args = parser.parse_args()
    schemes: tuple[Scheme, ...] = ("light", "dark")
    with RecordStore.open(args.store) as store, running_app(store) as root:
        if args.to.suffix == ".png":
            with opened(WIDE, "light") as page:
                page.goto(root + (args.page or f"/runs/{store.runs.newest(1)[0].id}"))
                page.wait_for_load_state("networkidle")
                page.screenshot(path=args.to)
            return
        args.to.mkdir(parents=True, exist_ok=True)
        for width in (WIDE, NARROW):
            for scheme in schemes:
                with opened(width, scheme) as page:
                    for path in paths(store):
                        look(
                            page,
                            root,
                            path,
                            args.to / f"{path.strip('/').replace('/', '-') or 'overview'}-{width}-{scheme}.png",
                        )


@contextmanager
def opened(width: int, scheme: Scheme) -> Iterator[playwright.Page]:
    """A page of a browser of its own."""
    chromium = os.environ.get("TUNEFARM_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as profile, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch_persistent_context(
            profile,
            executable_path=chromium,
            args=[*FLAGS, "--hide-scrollbars"],
            headless=True,
            color_scheme=scheme,
            viewport={"width": width, "height": HEIGHT},
        )
        browser.set_default_timeout(60_000)
        yield browser.new_page()
        browser.close()


def paths(store: RecordStore) -> list[str]:
    """One page of each kind."""
    runs, config = store.runs.newest(2), store.best.page(limit=1)[0]
    run = runs[0]
    device = store.devices.page(limit=1)[0].name
    trial = store.trials.page(run.id, limit=1)[0].id
    found = ["/", "/runs", f"/runs/{run.id}", f"/runs/{run.id}/choices", "/compare"]
    if len(runs) > 1:  # a run is not compared with itself
        found.append(f"/compare?a={runs[1].id}&b={run.id}")
    found += [f"/trials/{trial}", "/workloads", f"/workloads/{config.workload_key}", "/best", f"/best/{config.id}"]
    for model in store.models.page(1):
        found += ["/models", f"/models/{model.id}"]
        found += [f"/models/{model.id}/times/{time.id}" for time in store.models.times(model.id, limit=1)]
    releases = store.releases.newest(limit=1)
    found += [f"/devices/{device}", "/releases", *(f"/releases/{release.name}" for release in releases)]
    found += ["/families", *(f"/families/{family.id}" for family in store.families.newest(limit=1))]
    benchmarks = store.benches.newest(limit=1)
    return [*found, "/benchmarks", *(f"/benchmarks/{run.id}" for run in benchmarks), "/nowhere"]


def look(page: playwright.Page, root: str, path: str, to: Path) -> None:
    page.goto(root + path)
    page.wait_for_load_state("networkidle")
    across, width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    if across > width:
        print(f"{path} is {across} pixels wide in a window of {width}")
    page.screenshot(path=to, full_page=True)


if __name__ == "__main__":
    main()
