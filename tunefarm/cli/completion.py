"""Shell completion: files where a name may also stand, and names in the record store or the web app.

A store or web app that does not answer gives nothing to complete, and no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from compiler.errors import TunefarmError
from tunefarm import settings

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType

_WAIT_S = 1.0  # for a web app, while somebody waits at a prompt


class CompletedText(_TextType):
    """Text that shells complete."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(name) for name in dict.fromkeys(self.known(ctx)) if name.startswith(incomplete)]
        except TunefarmError:
            return []

    def known(self, ctx: click.Context) -> Iterable[str]:
        """All texts that the argument may be."""
        return ()


class FileOrName(CompletedText):
    """A file, or a name of something else; shells complete files."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


class ReleaseName(CompletedText):
    """An approved release of the record store."""

    def known(self, ctx: click.Context) -> Iterator[str]:
        from tuner.records.store import RecordStore

        with RecordStore.open(ctx.params.get("db") or settings.load({}).db) as store:
            yield from [release.name for release in store.releases.newest(1000) if release.approved]


class WebReleaseName(CompletedText):
    """An approved release that the web app knows."""

    def known(self, ctx: click.Context) -> Iterator[str]:
        from tunefarm.client import Client

        found = settings.load({})
        with Client(ctx.params.get("api") or found.api, token=found.api_token, timeout_s=_WAIT_S) as client:
            releases = client.get("/api/v1/releases", limit=200)["releases"]
        yield from [release["name"] for release in releases if release["approved_at"]]
