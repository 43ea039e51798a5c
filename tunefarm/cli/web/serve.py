"""`tunefarm web`: the dashboard and the REST API."""

from __future__ import annotations

from pathlib import Path

import click

from compiler.errors import TunefarmError
from rpc_server.machine.children import PYTHON
from tunefarm.cli.common import DB_OR_NEW, FILE, PORT, Whole, address
from tunefarm.settings import Settings

_EPILOG = """\b
Examples:
  tunefarm web
  tunefarm web --db postgresql://farm@db.lab/tunefarm --tracker 10.0.0.5:9190
  tunefarm web --host 0.0.0.0 --token-file /etc/tunefarm/tokens
\b
Exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start, 2 for wrong usage.
"""


@click.command(epilog=_EPILOG)
@click.option("--host", help="Interface to listen on.  [default: the setting, 127.0.0.1]")
@click.option("--port", type=PORT, default=9180, show_default=True, help="Port; 0 takes a free one.")
@click.option("--port-file", type=FILE, help="Write the port here once it answers.")
@DB_OR_NEW
@click.option(
    "--tracker", metavar="HOST:PORT", help='Tracker whose devices to show, or "none".  [default: the setting]'
)
@click.option("--token-file", type=FILE, help="Tokens that may read, one a line; every request then needs a token.")
@click.option("--require-token", is_flag=True, help="Ask for a token on loopback, too, for example behind a proxy.")
@click.option("--workers", type=Whole(1, 64), default=1, show_default=True, help="Processes that answer.")
@click.option("--proxy", "proxies", multiple=True, metavar="IP", help="Trust this proxy's X-Forwarded-For.")
@click.option("--insecure", is_flag=True, help="Without tokens, let everyone who reaches it read.")
@click.pass_obj
def web(
    settings: Settings, host: str | None, port: int, port_file: Path | None, db: str | None, tracker: str | None,
    token_file: Path | None, require_token: bool, insecure: bool, workers: int, proxies: tuple[str, ...],
) -> None:  # fmt: skip
    """Run the web app: runs as they happen, best configs and devices, as pages and as a REST API.

    Prints "listening on http://HOST:PORT" when it answers. Ctrl-C ends it.
    """
    from webui.serving.server import WebOptions, serve
    from webui.serving.workers import serve_workers

    where = tracker or settings.tracker
    options = WebOptions(
        db=db or settings.db, tracker=None if where == "none" else address(where, "--tracker"),
        host=host or settings.host, port=port, port_file=port_file,
        tokens=_tokens(token_file) if token_file is not None else (), insecure=insecure or settings.insecure,
        keys=settings.keys_folder, require_token=require_token, command=(*PYTHON, "-m", "tunefarm"), workers=workers,
        proxies=proxies,
    )  # fmt: skip
    (serve if workers == 1 else serve_workers)(options, announce=click.echo)


def _tokens(path: Path) -> tuple[str, ...]:
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except OSError as error:
        raise TunefarmError(f"cannot read the tokens in {path}: {error.strerror}") from None
    tokens = tuple(line for line in lines if line and not line.startswith("#"))
    if not tokens:
        raise TunefarmError(f"{path} holds no token", hint="write one a line; `openssl rand -hex 32` makes one")
    return tokens
