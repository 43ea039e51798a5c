"""`tunefarm alerts`: tell when a box is gone, a kernel slower, the queue long or a disk full."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import click

from tunefarm.cli.common import DB, FILE, address
from tunefarm.settings import Settings

_EPILOG = """\b
Examples:
  tunefarm alerts rules.toml
  tunefarm alerts rules.toml --once --json
\b
Exit status: 0 after SIGINT or SIGTERM, or with --once; 1 an error, 2 wrong usage.
"""


@click.command(epilog=_EPILOG)
@click.argument("rules", type=FILE)
@click.option("--tracker", metavar="HOST:PORT", help="Address of the tracker.  [default: the setting]")
@DB
@click.option("--once", is_flag=True, help="Check once, and report every alert that holds now.")
@click.option("--json", "as_json", is_flag=True, help="Print each alert as a line of JSON.")
@click.pass_obj
def alerts(settings: Settings, /, rules: Path, tracker: str | None, db: str | None, once: bool, as_json: bool) -> None:
    """Watch the farm by the rules in a TOML file, and tell of what begins and what is over.

    A rule looks for a box that is gone, a kernel slower than usual, a request that waits long, or a full disk. It is
    told in the log, to a web hook, or to a command.
    """
    from rpc_server.wire.keys import KeyRing
    from tracker.client import TrackerSession, connect_tracker
    from tuner.alerts.rules import read_rules
    from tuner.alerts.watch import Watch
    from tuner.records.store import RecordStore

    read = read_rules(rules)
    host, port = address(tracker or settings.tracker, "--tracker")
    with ExitStack() as stack:
        opened: dict[str, TrackerSession] = {}
        stores: dict[str, RecordStore] = {}

        def session() -> TrackerSession:
            if "tracker" not in opened:
                made = connect_tracker(host, port, keys=KeyRing(settings.keys_folder))
                opened["tracker"] = stack.enter_context(made)
            return opened["tracker"]

        def store() -> RecordStore:
            if "store" not in stores:
                stores["store"] = stack.enter_context(RecordStore.open(db or settings.db))
            return stores["store"]

        watch = Watch(read, session, store)
        waiting = threading.Event()
        while True:
            for alert in watch.look():
                said = json.dumps(asdict(alert)) if as_json else f"{'over: ' if alert.over else ''}{alert.text}"
                click.echo(said)
            if once:
                return
            waiting.wait(read.every_s)
