"""The page and command seams: one file and one row each, and each row is described."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from starlette.responses import Response

from tests.kit.cli.run import run_cli
from tests.kit.places import DOCS
from tunefarm.cli.commands import COMMANDS, Subcommand
from tuner.records.store import RecordStore
from webui.app import create_app
from webui.context import Ctx
from webui.pages.render import render
from webui.pages.table import PAGES, Page, navigation

MODULE = "toy_page"


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module with a page and a command, and a row for each."""
    module = ModuleType(MODULE)
    module.router = APIRouter()  # type: ignore[attr-defined]

    @module.router.get("/toy")  # type: ignore[attr-defined]
    def toy_page(context: Ctx) -> Response:
        return render(context, "runs.html", "Toy", runs=[], next=None, older_than=1, launcher=None)

    @click.command("toy")
    def toy() -> None:
        click.echo("a toy")

    module.toy = toy  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setitem(COMMANDS, "toy", Subcommand(f"{MODULE}:toy", "Say that it is a toy."))
    PAGES.append(Page("Toy", "/toy", f"{MODULE}:router"))
    yield
    PAGES.pop()


def test_a_page_is_served_and_stands_in_the_navigation(toys: None, tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        client = TestClient(create_app(store))
        shown = client.get("/toy", headers={"accept": "text/html"})
        assert shown.status_code == 200
        assert '<a href="/toy" aria-current="page">Toy</a>' in shown.text
        assert '<a href="/toy">Toy</a>' in client.get("/releases").text


def test_a_command_runs_by_its_name(toys: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_cli(capfd, "toy").out == "a toy\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_is_where_its_row_says(page: Page) -> None:
    paths = [route.path for route in page.load().routes]  # type: ignore[attr-defined]
    assert page.path in paths


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_is_described(page: Page) -> None:
    text = (DOCS / "dashboard.md").read_text()
    for route in page.load().routes:
        begin = route.path.split("{")[0]  # type: ignore[attr-defined]
        assert f"`{begin}" in text, begin


def test_the_navigation_is_of_pages_with_a_title() -> None:
    assert dict(navigation()) == {page.title: page.path for page in PAGES if page.title}


def test_every_command_has_a_file_of_its_own_or_of_its_group() -> None:
    for name, row in COMMANDS.items():
        assert row.load().name == name
