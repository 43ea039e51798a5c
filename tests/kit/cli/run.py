"""Run the command line in this process, the way its entry point does."""

from __future__ import annotations

import signal
from dataclasses import dataclass

import click
import pytest

from tunefarm.cli.commands import cli
from tunefarm.cli.main import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def run_cli(capfd: pytest.CaptureFixture[str], *args: str) -> Outcome:
    """The exit status and output of `tunefarm ARGS`."""
    code = exit_code(*args)
    captured = capfd.readouterr()
    return Outcome(code, captured.out, captured.err)


def exit_code(*args: str) -> int:
    """Return the exit status of `tunefarm ARGS`."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as ended:
            main(list(args))
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert isinstance(ended.value.code, int)
    return ended.value.code


def can_be_typed(words: list[str]) -> None:
    """Check that `tunefarm` takes these words. Raises click's UsageError."""
    context = cli.make_context("tunefarm", words[:1], resilient_parsing=True)
    name, command, rest = cli.resolve_command(context, words)
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    assert command is not None
    command.make_context(name, list(rest), parent=context)
