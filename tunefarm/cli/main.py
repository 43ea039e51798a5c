"""The `tunefarm` command. Subcommands live in one module each and are imported when they run."""

from __future__ import annotations

import importlib
import logging
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

from compiler.errors import TunefarmError
from tunefarm import settings
from tunefarm.version import __version__

COMMANDS = {
    "tracker": "tunefarm.cli.farm:tracker",
    "server": "tunefarm.cli.farm:server",
    "devices": "tunefarm.cli.farm:devices",
    "tune": "tunefarm.cli.tune:tune",
    "runs": "tunefarm.cli.records:runs",
    "best": "tunefarm.cli.records:best",
    "build": "tunefarm.cli.build:build",
    "web": "tunefarm.cli.web:web",
    "db": "tunefarm.cli.db:db",
    "demo": "tunefarm.cli.demo:demo",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `tunefarm demo`, which runs a whole farm on this machine.",
)
@click.version_option(__version__, prog_name="tunefarm")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="What is logged to stderr.")
@click.pass_context
def cli(ctx: click.Context, log_level: str | None) -> None:
    """Tune and benchmark tensor kernels on a fleet of real machines.

    Every default below can be set by an environment variable (TUNEFARM_DB, TUNEFARM_TRACKER, ...) or in
    tunefarm.toml.
    """
    ctx.obj = settings.load({"log_level": log_level})
    level = getattr(logging, ctx.obj.log_level.upper(), logging.WARNING)
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)


def main(argv: Sequence[str] | None = None) -> Any:
    """Entry point: errors made on purpose are printed as text, never as a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return cli.main(args=list(argv) if argv is not None else None, prog_name="tunefarm", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return sys.exit(error.exit_code)
    except click.exceptions.Exit as error:
        return sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return sys.exit(130)
    except BrokenPipeError:  # the reader of our output, `head` for example, has gone
        sys.stderr.close()
        return sys.exit(141)
    except TunefarmError as error:
        _report(error)
        return sys.exit(1)


def _terminate(signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _report(error: TunefarmError) -> None:
    click.secho("error: ", fg="red", bold=True, err=True, nl=False)
    click.echo(error.message, err=True)
    if error.hint:
        click.secho("  hint: ", fg="yellow", err=True, nl=False)
        click.echo(error.hint, err=True)
