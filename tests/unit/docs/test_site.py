"""The documentation site: its navigation names pages there are, its faults are found, the web app serves it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient

from tests.kit.places import DOCS, ROOT, ci_script
from tuner.records.store import RecordStore
from webui.app import create_app
from webui.pages import documentation
from webui.serving.guard import SECURITY_HEADERS

GENERATED = {"deploy.md"}
"""Pages that .ci/site_hooks.py brings from elsewhere."""


def test_the_navigation_names_pages_that_exist() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    named = set(re.findall(r"[\w-]+\.md", str(config["nav"])))
    assert named <= {page.name for page in DOCS.glob("*.md")} | GENERATED


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="other/">x</a>', "leads nowhere"),
        ('<a href="#part">x</a>', "has no such anchor"),
        ("<script>start()</script>", "an inline script"),
        ('<p style="color:red">x</p>', "an inline style"),
        ('<p onclick="x()">x</p>', "has onclick"),
        ('<img src="https://example.org/x.png">', "fetches https://example.org/x.png"),
        ('<a href="https://example.org/">x</a><script type="application/json">{}</script>', ""),
    ],
)
def test_faults_of_a_page_are_found(tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "index.html").write_text(f"<html><body>{body}</body></html>")
    found = ci_script("site_check").check(tmp_path)
    assert (fault in found[0] and len(found) == 1) if fault else not found


def test_style_sheets_fetch_nothing_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>x</p>")
    (tmp_path / "site.css").write_text("a { background: url(https://fonts.example.org/a.woff) }")
    assert "is not a file of the site" in ci_script("site_check").check(tmp_path)[0]


def test_the_site_is_served_with_the_strict_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "tuning").mkdir(parents=True)
    (site / "index.html").write_text("<p>first</p>")
    (site / "tuning" / "index.html").write_text("<p>tuning</p>")
    (tmp_path / "secret.html").write_text("<p>no</p>")
    monkeypatch.setattr(documentation, "SITE", site)
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        client = TestClient(create_app(store))
        assert "first" in client.get("/docs").text
        shown = client.get("/docs/tuning/")
        assert "tuning" in shown.text
        assert shown.headers["content-security-policy"] == SECURITY_HEADERS["Content-Security-Policy"]
        for path in ("/docs/none/", "/docs/../secret.html", "/docs/%2e%2e/secret.html"):
            assert client.get(path).status_code == 404


def test_a_site_that_is_not_built_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documentation, "SITE", tmp_path / "none")
    with RecordStore.open(tmp_path / "records.db", create=True) as store:
        shown = TestClient(create_app(store)).get("/docs/")
    assert shown.status_code == 404
    assert "make docs" in shown.text
