"""Check the built site: links and anchors lead somewhere, nothing is inline, and nothing is fetched from elsewhere.

`python .ci/site_check.py webui/site`; exit status 1 with a line for each fault.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links, fetched files and inline code of a page; `ids` are its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.faults: list[str] = []
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in _FETCHED and _FETCHED[tag] in given and given.get("rel") != "canonical":
            self.fetched.append(given[_FETCHED[tag]])
        self._script = tag == "script" and "src" not in given and given.get("type") != "application/json"
        if tag == "style" or "style" in given:
            self.faults.append(f"<{tag}> has an inline style")
        self.faults += [f"<{tag}> has {name}" for name in given if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self._script and data.strip():
            self.faults.append("an inline script")


def check(site: Path) -> list[str]:
    """A line for each fault."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    faults = [f"{path.relative_to(site)}: {fault}" for path, page in pages.items() for fault in page.faults]
    for path, page in pages.items():
        name = path.relative_to(site)
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.fetched:
                    faults.append(f"{name}: fetches {link}")
                continue
            target = _target(site, path, unquote(parts.path))
            if not target.exists():
                faults.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids | {"__top"}:
                faults.append(f"{name}: {link} has no such anchor")
    for sheet in sorted(site.rglob("*.css")):
        for address in re.findall(r"url\([\"']?([^\"')]+)", sheet.read_text("utf-8")):
            if re.match(r"(data:|https?:|//)", address):
                faults.append(f"{sheet.relative_to(site)}: {address[:60]} is not a file of the site")
            elif not address.startswith("#") and not (sheet.parent / urlsplit(address).path).exists():
                faults.append(f"{sheet.relative_to(site)}: {address} leads nowhere")
    return faults if pages else [f"{site} has no pages"]


def _target(site: Path, page: Path, link: str) -> Path:
    """The file that a path leads to; an absolute one is below /docs, where the site is served."""
    if link.startswith("/"):
        link = link.removeprefix("/docs").lstrip("/")
        found = site / link
    else:
        found = page.parent / link if link else page
    found = found.resolve()
    return found / "index.html" if found.is_dir() else found


if __name__ == "__main__":
    found = check(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "every link of the site leads somewhere, and nothing is fetched from elsewhere")
    sys.exit(bool(found))
