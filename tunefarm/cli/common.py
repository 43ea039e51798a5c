"""Helpers of subcommands: reading addresses, cores and sizes, and writing tables."""

from __future__ import annotations

import os
import re
import select
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from compiler.errors import TunefarmError
from rpc_server.machine.number_spans import spans
from tunefarm.cli.importing import EXIT_INTERRUPTED as EXIT_INTERRUPTED
from tuner.goals import Goal
from tuner.number_text import ranges
from tuner.search.registry import strategy_names

EXIT_ERROR = 1
EXIT_NO_CONFIG = 3
EXIT_CHECK_FAILED = 4
EXIT_REGRESSION = 5
EXIT_UNREAD = 141


def nobody_reads() -> bool:
    """Whether stdout or stderr leads to a pipe whose reader is gone."""
    poll = select.poll()
    for fd in (1, 2):
        poll.register(fd, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


class Whole(click.IntRange):
    """A whole number, perhaps of a range.
    Its help and its errors say "integer", where click's say "integer range"."""

    name = "integer"


class Number(click.FloatRange):
    """A number with fractions within bounds; `Whole` is one without."""

    name = "number"


class CommandGroup(click.Group):
    """A command with subcommands, whose list has the whole first sentence of each.
    click's own cuts it short."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(1000)) for name in self.list_commands(ctx)]
            )


PORT = Whole(0, 65535)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
DB = click.option("--db", help="Record store.  [default: the setting, sqlite:///tunefarm.db]")
DB_OR_NEW = click.option(
    "--db", help="Record store, made if there is none.  [default: the setting, sqlite:///tunefarm.db]"
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
JSON_IN_SECONDS = click.option("--json", "as_json", is_flag=True, help="Print JSON; its times are in seconds.")
OBJECTIVE = click.option(
    "--objective",
    type=click.Choice([str(goal) for goal in Goal]),
    default=str(Goal.TIME),
    show_default=True,
    help="Choose configs by time or by energy (joules of a call, where measured).",
)

if TYPE_CHECKING:
    from rich.console import Console

    _CoresType = click.ParamType[tuple[int, ...]]
    _NameType = click.ParamType[str]
    _SizeType = click.ParamType[int]
    _SpanType = click.ParamType[float]
else:  # generic only from click 8.5 on
    _CoresType = _NameType = _SizeType = _SpanType = click.ParamType

_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PIPE_WIDTH = 200
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT (or [V6]:PORT) as a pair. A usage error names the option."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{text!r} is not HOST:PORT, for example 127.0.0.1:9190", param_hint=option)
    return host, int(port)


class Cores(_CoresType):
    """A list of core numbers, such as "0,2" or "0-3,8", of which this process may use every one."""

    name = "LIST"

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found = spans(value)
        if found is None:
            self.fail(f"{value!r} is not a list of cores, for example 0,1 or 0-3", param, ctx)
        cores = {core for low, high in found for core in range(low, high + 1)}
        usable = os.sched_getaffinity(0)
        if missing := sorted(cores - usable):
            there = ranges(sorted(usable))
            self.fail(f"there is no core {missing[0]} that this process may use; there are {there}", param, ctx)
        return tuple(sorted(cores))


class Size(_SizeType):
    """A number of bytes, with or without a unit: 8GiB, 512M, 0."""

    name = "SIZE"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", value.lower())
        if found is None:
            self.fail(f"{value!r} is not a size, for example 8GiB or 512M", param, ctx)
        return int(float(found[1]) * _UNITS[found[2]])


class Timespan(_SpanType):
    """A duration in seconds, with or without a unit: 90, 90s, 30min, 2h, 1d."""

    name = "TIME"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d+)?)\s*(s|min|m|h|d|)\s*", value.lower())
        if found is None:
            self.fail(f"{value!r} is not a time, for example 90s, 30min or 2h", param, ctx)
        return float(found[1]) * _SECONDS[found[2]]


class Share(_SpanType):
    """A part of a whole: 95% or 0.95."""

    name = "SHARE"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"\s*(\d{1,3}(?:\.\d+)?)\s*(%?)\s*", value)
        share = float(found[1]) / (100 if found[2] else 1) if found else 2.0
        if share > 1:
            self.fail(f"{value!r} is not a share, for example 95% or 0.95", param, ctx)
        return share


def console(file: IO[str] | None = None) -> Console:
    """A console for tables.
    It uses colours and the window's width only on a terminal; elsewhere no cell is cut short."""
    from rich.console import Console  # most commands that print no table end sooner than this is imported

    found = Console(file=file, highlight=False)
    return found if found.is_terminal else Console(file=file, highlight=False, width=_PIPE_WIDTH)


class NotTunedError(TunefarmError, kind="not_tuned"):
    """Kernels have no config and the build asked for one."""


class CheckFailedError(TunefarmError, kind="check_failed"):
    """A tuned kernel's output differs from the untuned one's, or it does not run."""


class RegressionError(TunefarmError, kind="regression"):
    """A benchmark became slower, and measuring it again bore that out."""


def exit_code(error: TunefarmError) -> int:
    """The exit status an error ends the command with."""
    match error:
        case NotTunedError():
            return EXIT_NO_CONFIG
        case CheckFailedError():
            return EXIT_CHECK_FAILED
        case RegressionError():
            return EXIT_REGRESSION
        case _:
            return EXIT_ERROR


class StrategyName(_NameType):
    """The name of a search strategy that is registered when the command runs."""

    name = "strategy"

    def get_metavar(self, *args: Any, **named: Any) -> str | None:
        return click.Choice(strategy_names()).get_metavar(*args, **named)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return click.Choice(strategy_names()).convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return click.Choice(strategy_names()).shell_complete(ctx, param, incomplete)


STRATEGY = StrategyName()
