"""The `tunefarm` command. Subcommands live in one module each and are imported when they run."""

from __future__ import annotations

import importlib
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from compiler.errors import TunefarmError
from tunefarm import settings
from tunefarm.cli.common import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_UNREAD, exit_code, nobody_reads
from tunefarm.cli.importing import ends_quietly
from tunefarm.version import __version__

logger = logging.getLogger("tunefarm")


@dataclass(frozen=True)
class Subcommand:
    """Where a subcommand is ("module:name", "." stands for this package), and its line in the list.
    Showing the list therefore imports none of them."""

    where: str
    summary: str

    def load(self) -> click.Command:
        module, attribute = self.where.split(":")
        with ends_quietly():
            command: click.Command = getattr(importlib.import_module(module, __package__), attribute)
        return command


_GROUPS = {
    "Start here": {
        "demo": Subcommand(".tuning.demo:demo", "Run a whole farm on this machine, from tuning to a build."),
        "doctor": Subcommand(".farm.doctor:doctor", "Look at a farm or a box and say what is wrong."),
    },
    "Tune": {
        "tune": Subcommand(".tuning.tune:tune", "Search for the fastest schedules of kernels on devices."),
        "runs": Subcommand(".records.results:runs", "List tuning runs."),
        "best": Subcommand(".records.results:best", "Show the best known config of a kernel, and why it is."),
        "show": Subcommand(".records.show:show", "Show the best config of a kernel whole: schedule, values, C."),
        "compare": Subcommand(".records.show:compare", "Compare the results of two runs, kernel by kernel."),
        "cost-model": Subcommand(".tuning.cost_model:cost_model", "Train, list and move models that guide searches."),
    },
    "Build with the results": {
        "build": Subcommand(".records.build:build", "Build kernels with the best configs the web app knows."),
        "release": Subcommand(".records.release:release", "Freeze best configs under a name for builds to pin."),
        "run": Subcommand(".models.run:run", "Run a model, time it, profile it and compare its results."),
        "models": Subcommand(".models.models:models", "List and show models: coverage, end-to-end times."),
    },
    "Records": {
        "records": Subcommand(".records.exchange:records", "Export, import, merge, count and prune records."),
        "db": Subcommand(".records.db:db", "Create, check, upgrade, back up and move the record store."),
    },
    "Dashboard and REST API": {
        "web": Subcommand(".web.serve:web", "Run the dashboard and the REST API."),
        "token": Subcommand(".web.token:token", "Make, list and revoke tokens of the web app."),
        "quota": Subcommand(".web.quota:quota", "Say what users may take: device hours, trials, runs."),
    },
    "Run a farm": {
        "farm": Subcommand(".farm.farm:farm", "Set up a farm; rename and remove boxes."),
        "tracker": Subcommand(".farm.services:tracker", "Run the tracker that lends devices."),
        "server": Subcommand(".farm.services:server", "Run a device server."),
        "relay": Subcommand(".farm.relay:relay", "Run a relay to boxes that can only dial out."),
        "keys": Subcommand(".farm.keys:keys", "Make keys, and say who may connect and whom to trust."),
    },
    "Use and look after devices": {
        "devices": Subcommand(".farm.services:devices", "List the tracker's devices."),
        "lease": Subcommand(".farm.lease:lease", "Hold a device for a command or a while."),
        "bench": Subcommand(".farm.bench:bench", "Benchmark the fleet, and say when a kernel became slower."),
        "alerts": Subcommand(".farm.alerts:alerts", "Tell when a box is gone, a kernel slower, a disk full."),
        "check": Subcommand(".farm.admin:check", "Check the health of a device or box."),
        "drain": Subcommand(".farm.admin:drain", "Lend a device or box no more."),
        "undrain": Subcommand(".farm.admin:undrain", "Lend a drained device or box again."),
        "quarantine": Subcommand(".farm.admin:quarantine", "Take a device or box out of service now."),
        "unquarantine": Subcommand(".farm.admin:unquarantine", "Bring a quarantined device or box back."),
    },
}
"""The commands by what they are for, in the order in which the list has them."""

COMMANDS = {name: command for commands in _GROUPS.values() for name, command in commands.items()}


class _NotForClick(Exception):
    """Carries an error past click, which would end the process without a message or as interrupted."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextmanager
def _kept_from_click() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, EOFError) as error:
        raise _NotForClick(error) from None


class _LazyGroup(click.Group):
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _kept_from_click():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _kept_from_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return COMMANDS[cmd_name].load() if cmd_name in COMMANDS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", command.summary) for name, command in commands.items()])


_EPILOG = """\b
Examples:
  tunefarm demo                                   a whole farm on this machine, from tuning to a build
  tunefarm tune matmul:512,512,512:float32        tune a kernel here; then `tunefarm web` shows the run
  tunefarm build matmul:512,512,512 --out build/  build it with the best config found
  tunefarm COMMAND --help                         what a command does, with examples
\b
Exit status:
  0    done
  1    an error, explained on stderr
  2    wrong usage
  3    no config for a kernel (best; build --require-tuned)
  4    a built kernel or a device failed its check (build --check, check, doctor)
  5    a kernel became slower (bench run)
  130  interrupted
  141  nobody read the output to its end
"""


@click.group(
    cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}, epilog=_EPILOG
)
@click.version_option(__version__, prog_name="tunefarm")
@click.option("--log-level", type=click.Choice(settings.LOG_LEVELS), help="Log level for stderr.")
@click.pass_context
def cli(ctx: click.Context, log_level: str | None) -> None:
    """Tune and benchmark tensor kernels on a fleet of real machines.

    What the commands call "the setting" comes from an environment variable (TUNEFARM_DB, TUNEFARM_TRACKER, ...) or
    from tunefarm.toml.
    """
    ctx.obj = settings.load({"log_level": log_level})
    level = getattr(logging, ctx.obj.log_level.upper())
    from rpc_server.wire.plain_text import log_plainly

    log_plainly("%(asctime)s %(levelname)s %(name)s: %(message)s", level, stream=sys.stderr)


def run(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `tunefarm ARGV`. Errors are printed as text with what to do next, never as a traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        # a command that ends early with a status of its own (click's Exit) has that returned here
        code = cli.main(args=list(argv) if argv is not None else None, prog_name="tunefarm", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        click.echo(_shown(said.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except _NotForClick as kept:
        if nobody_reads():  # `head`, for example, has seen enough
            _write_nowhere()
            sys.exit(EXIT_UNREAD)
        _end_with(kept.error)
    except TunefarmError as error:
        logger.debug("the command failed", exc_info=True)
        report(error.message, error.hint)
        sys.exit(exit_code(error))
    except Exception as error:
        _end_with(error)


def _end_with(error: Exception) -> NoReturn:
    logger.debug("the command failed", exc_info=error)
    report(
        f"{type(error).__name__}: {error}",
        "this is not an error tunefarm knows; `tunefarm --log-level debug ...` shows where it comes from",
    )
    sys.exit(EXIT_ERROR)


def _write_nowhere() -> None:
    """Discard the output still to be written, so that Python does not fail on it once more when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)


def _terminate(signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


def report(message: str, hint: str | None) -> None:
    """An error as a person reads it, in colour on a terminal."""
    click.secho("error: ", fg="red", bold=True, err=True, nl=False)
    click.echo(_shown(message), err=True)
    if hint:
        click.secho("  hint: ", fg="yellow", err=True, nl=False)
        click.echo(_shown(hint), err=True)


def _shown(text: str) -> str:
    from tuner.records.db.passwords import shown_text  # no command that works needs it here

    return shown_text(text)
