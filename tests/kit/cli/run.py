"""Run the command line in this process, the way its entry point does."""

from __future__ import annotations

import signal
from dataclasses import dataclass

import pytest

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
